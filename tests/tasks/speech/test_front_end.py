"""From waveforms to what the model sees: levels, warped frequencies, and what is random in training."""

import jax
import numpy as np
import pytest

from flax_transformer.audio.features import log_mel
from flax_transformer.audio.mel import FeatureConfig
from flax_transformer.tasks.speech import model
from flax_transformer.tasks.speech.config import PerturbationConfig

CONFIG = FeatureConfig(sample_rate=8_000)
SLOTS = 4_000


def jitted(function, *static):
    """Returns NumPy arrays."""
    compiled = jax.jit(function, static_argnums=static)
    return lambda *arguments: jax.device_get(compiled(*arguments))


features_of, warped = jitted(model.features_of, 2), jitted(model.warped, 2)
leveled, mel_of = jitted(model.leveled), jitted(log_mel, 1)
training_features = jitted(model.training_features, 3, 4)


def tone(hz: float, *, level: float = 0.3, count: int = SLOTS) -> np.ndarray:
    return (level * np.sin(2 * np.pi * hz * np.arange(count) / 8_000)).astype(np.float32)


def rows(*waveforms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    padded = np.zeros((len(waveforms), SLOTS), np.float32)
    for row, waveform in zip(padded, waveforms, strict=True):
        row[: len(waveform)] = waveform
    return padded, np.array([len(each) for each in waveforms], np.int32)


def test_features_do_not_depend_on_level_padding_and_pauses() -> None:
    sound = np.random.default_rng(0).normal(0, 0.3, 2_000).astype(np.float32)
    pause = np.zeros(1_600, np.float32)
    features, frames = features_of(*rows(sound, 0.1 * sound, np.concatenate([sound, pause])), CONFIG)
    assert frames.tolist() == [23, 23, 43]
    np.testing.assert_allclose(features[1, :23], features[0, :23], atol=2e-3)  # the floor of the logarithm
    assert not features[0, 23:].any()
    assert not features[2, 43:].any()
    np.testing.assert_allclose(features[2, 30:43], -8 / 3)
    # The mean energy is over 43 frames: half as much, which is 0.7 nats.
    np.testing.assert_allclose(features[2, :20] - features[0, :20], np.log(43 / 24) / 3, atol=0.03)


def test_half_of_a_recordings_color_goes() -> None:
    """What a microphone adds to each band counts half, relative to the level; padding stays 0."""
    generator = np.random.default_rng(0)
    features = generator.normal(0, 1, (1, 30, 40)).astype(np.float32)
    color = np.linspace(-1.5, 1.5, 40, dtype=np.float32)
    is_frame = np.arange(30)[None] < 20
    plain, colored = leveled(features, is_frame), leveled(features + color, is_frame)
    change = (colored - plain)[0, :20]
    np.testing.assert_allclose(change - change.mean(axis=1, keepdims=True), np.tile(color / 6, (20, 1)), atol=1e-5)
    assert not colored[0, 20:].any()
    # What varies within a band stays.
    np.testing.assert_allclose(np.diff(plain[0, :20], axis=0), np.diff(features[0, :20], axis=0) / 3, atol=1e-5)


@pytest.mark.parametrize('factor', [0.8, 1.25])
def test_warping_multiplies_frequencies(factor: float) -> None:
    """Up to a corner; then the top stays where it is."""
    features = mel_of(tone(800)[None], CONFIG)
    expected = mel_of(tone(800 * factor)[None], CONFIG)
    found = warped(features, np.float32([factor]), CONFIG)
    assert np.argmax(found[0, 5]) == pytest.approx(np.argmax(expected[0, 5]), abs=1)
    top = warped(np.where(np.arange(40) == 39, np.ones_like(features), 0), np.float32([factor]), CONFIG)
    assert np.argmax(top[0, 0]) == 39


@pytest.mark.slow
def test_training_changes_each_utterance_by_its_key_alone() -> None:
    samples, counts = rows(tone(500), tone(500), tone(900, count=3_000), np.zeros(0, np.float32))
    change = lambda key: training_features(key, samples, counts, CONFIG, PerturbationConfig(vocal_tract=1.2))
    one, frames = change(jax.random.key(0))
    again, other = change(jax.random.key(0))[0], change(jax.random.key(1))[0]
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 0.1
    assert np.abs(one[0] - one[1]).max() > 0.1, 'two equal utterances are changed differently'
    assert frames.tolist() == [48, 48, 36, 0]
    assert np.isfinite(one).all()
    assert not one[3].any()
    assert not one[2, 36:].any()


@pytest.mark.slow
def test_without_perturbation_training_sees_what_evaluation_sees() -> None:
    none = PerturbationConfig(
        speed=1, vocal_tract=1, gain_db=0, color_db=0, lowest_snr_db=None, band_masks=0, frame_masks=0
    )
    samples, counts = rows(tone(500), tone(900, count=3_000))
    expected = features_of(samples, counts, CONFIG)
    found = training_features(jax.random.key(0), samples, counts, CONFIG, none)
    for one, two in zip(expected, found, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6)
