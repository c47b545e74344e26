"""Log-mel features against NumPy's FFT and librosa's numbers, and what they promise to a stream."""

import jax
import numpy as np
import pytest
from conftest import TESTS
from mel_sound import SETTINGS, sound

from flax_transformer.audio.features import framed, log_mel
from flax_transformer.audio.mel import (
    FeatureConfig,
    mel_filters,
    num_frames,
)
from flax_transformer.common.errors import UserError

CONFIG = FeatureConfig(sample_rate=8000)  # window 200, hop 80, FFT 256
mel_of = jax.jit(log_mel, static_argnums=1)


def configured(name: str) -> FeatureConfig:
    rate, window, hop, _, mels, lowest, highest = SETTINGS[name]
    return FeatureConfig(rate, 1000 * window / rate, 1000 * hop / rate, mels, lowest, highest)


@pytest.fixture(scope='module')
def librosa_numbers() -> dict[str, np.ndarray]:
    with np.load(TESTS / 'fixtures' / 'librosa_mel.npz') as arrays:
        return dict(arrays)


@pytest.mark.parametrize('name', SETTINGS)
def test_filters_are_librosas(name: str, librosa_numbers: dict) -> None:
    np.testing.assert_allclose(mel_filters(configured(name)), librosa_numbers[f'{name}_filters'], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize('name', SETTINGS)
def test_energies_are_librosas(name: str, librosa_numbers: dict) -> None:
    config, expected = configured(name), librosa_numbers[f'{name}_energies']
    features = mel_of(sound(config.sample_rate), config)
    assert features.shape == expected.shape
    # Rounding of float32 in two FFTs; the energies span nine orders of magnitude.
    np.testing.assert_allclose(features, np.log(expected + 1e-8), atol=1e-3)


@pytest.mark.parametrize(('window_ms', 'hop_ms'), [(25.0, 10.0), (10.0, 20.0)])
@pytest.mark.parametrize('samples', [0, 79, 80, 199, 200, 1000])
def test_frames_are_slices_that_fit_whole(samples: int, window_ms: float, hop_ms: float) -> None:
    config = FeatureConfig(sample_rate=8000, window_ms=window_ms, hop_ms=hop_ms, num_mels=10)
    values = np.arange(2 * samples, dtype=np.float32).reshape(2, samples)
    starts = range(0, samples - config.window + 1, config.hop)
    expected = np.zeros((2, 0, config.window))
    if starts:
        expected = np.stack([values[:, start : start + config.window] for start in starts], axis=1)
    np.testing.assert_array_equal(jax.jit(framed, static_argnums=1)(values, config), expected)
    assert num_frames(samples, config) == len(starts)


def test_silence_is_finite_and_twice_the_amplitude_adds_6_db() -> None:
    assert np.allclose(mel_of(np.zeros(400, np.float32), CONFIG), np.log(1e-8))
    samples = np.random.default_rng(0).normal(size=400).astype(np.float32)
    louder, softer = (np.asarray(mel_of(samples * level, CONFIG)) for level in np.float32([0.2, 0.1]))
    np.testing.assert_allclose(louder - softer, np.log(4), atol=1e-4)


@pytest.mark.parametrize(
    ('fields', 'message'),
    [
        ({'hop_ms': 0.0}, 'hop_ms=0.0'),
        ({'window_ms': 0.05}, 'window_ms=0.05'),
        ({'window_ms': 1e9}, 'window_ms=1000000000.0'),
        ({'lowest_hz': 9000.0}, 'lowest_hz=9000.0 and highest_hz=None'),
        ({'num_mels': 200}, 'num_mels=200'),
    ],
)
def test_impossible_features_are_refused(fields: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        FeatureConfig(**fields)
