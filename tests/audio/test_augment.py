"""Augmentations by their definitions: levels measured in dB, masks counted, padding left alone."""

from functools import partial

import jax
import numpy as np
import pytest

from flax_transformer.audio.augment import (
    active_power,
    among_first,
    gain,
    mixed,
    run_masks,
    spec_augment,
)

RATE = 8000
HALF_SILENT = np.concatenate([np.sin(np.arange(RATE // 2) / 3), np.zeros(RATE // 2)]).astype(np.float32)
NOISE = np.random.default_rng(0).normal(size=RATE).astype(np.float32)


def decibels(ratio: float) -> float:
    return float(10 * np.log10(ratio))


def test_gain_is_in_decibels() -> None:
    np.testing.assert_allclose(gain(HALF_SILENT, 20), 10 * HALF_SILENT, rtol=1e-6)
    assert gain(HALF_SILENT, np.float64(-6)).dtype == np.float32


@pytest.mark.parametrize('compiled', [lambda each: each, partial(jax.jit, static_argnums=1)], ids=['NumPy', 'JAX'])
def test_pauses_do_not_count_as_signal(compiled) -> None:
    power_of = compiled(active_power)
    power = power_of(HALF_SILENT, RATE)
    assert float(power) == pytest.approx(0.5, rel=0.01)  # a sine's, without its half of silence
    faint = HALF_SILENT + 0.001 * NOISE  # 60 dB below
    assert float(power_of(faint, RATE)) == pytest.approx(0.5, rel=0.01)
    assert float(power_of(np.zeros(RATE, np.float32), RATE)) == 0


@pytest.mark.parametrize('compiled', [lambda each: each, partial(jax.jit, static_argnums=3)], ids=['NumPy', 'JAX'])
@pytest.mark.parametrize('snr', [-5.0, 20.0])
def test_noise_has_the_ratio_that_was_asked_for(compiled, snr: float) -> None:
    noisy = compiled(mixed)(HALF_SILENT, 7 * NOISE, snr, RATE)
    assert noisy.dtype == np.float32
    noise = np.asarray(noisy) - HALF_SILENT
    assert decibels(0.5 / np.mean(np.square(noise))) == pytest.approx(snr, abs=0.05)


def test_masks_are_runs_within_their_limits() -> None:
    keys, counts = jax.random.split(jax.random.key(0), 400), np.repeat([12, 3, 0], [300, 50, 50])
    masks = np.array(jax.jit(jax.vmap(lambda key, count: run_masks(key, 1, 5, count, 20)))(keys, counts))
    for mask, count in zip(masks, counts, strict=True):
        assert not mask[count:].any()
        assert np.count_nonzero(np.diff(np.flatnonzero(mask)) != 1) == 0
    assert set(masks[:300].sum(axis=1)) == {0, 1, 2, 3, 4, 5}
    assert set(masks[300:350].sum(axis=1)) == {0, 1, 2, 3}
    assert set(np.flatnonzero(masks[:300].any(axis=0))) == set(range(12)), 'every place is masked sometimes'


def test_spec_augment_masks_bands_and_frames_by_the_mean_and_leaves_padding() -> None:
    keys = jax.random.split(jax.random.key(1), 50)
    features = np.random.default_rng(0).normal(3, 1, (50, 60, 40)).astype(np.float32)
    counts = np.arange(50) + 1
    is_frame = np.array(among_first(counts, 60))
    augmented = np.array(jax.jit(jax.vmap(spec_augment))(keys, features, is_frame))
    mean = np.array([features[row, :count].mean(axis=0) for row, count in enumerate(counts)])
    is_changed = augmented != features
    assert is_changed.any(axis=(1, 2)).mean() > 0.8
    assert not is_changed[~is_frame].any()
    expected = np.broadcast_to(mean[:, None], augmented.shape)
    np.testing.assert_allclose(augmented[is_changed], expected[is_changed], atol=1e-5)
    for row, count in enumerate(counts):
        whole_bands = is_changed[row, :count].all(axis=0)
        whole_frames = is_changed[row, :count].all(axis=1)
        covered = whole_bands[None, :] | whole_frames[:, None]
        np.testing.assert_array_equal(is_changed[row, :count], covered)
        assert whole_bands.all() or whole_bands.sum() <= 16
        assert whole_frames.all() or whole_frames.sum() <= 2 * int(0.2 * count)
