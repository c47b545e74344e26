"""What training does to one recording: its gain, noise, and masks of its features (SpecAugment).

`jax.vmap` maps the functions over a padded batch; padding stays 0. `gain`, `active_power` and `mixed` also take arrays
of NumPy.
"""

import jax
import jax.numpy as jnp

_ACTIVE_SHARE = 1e-3  # blocks quieter than this fraction of the loudest one's power, -30 dB, are pauses
_BLOCKS_PER_SECOND = 50


def gain(samples, db):
    return (samples * 10 ** (db / 20)).astype(samples.dtype)


def active_power(samples, rate: int):
    """The mean square of samples [..., T] over the blocks of 20 ms that are at most 30 dB below the loudest, [...].

    So pauses and padding do not make a recording quieter; a simple form of the active speech level of ITU-T P.56.
    """
    xp = samples.__array_namespace__()
    size = min(rate // _BLOCKS_PER_SECOND, samples.shape[-1])
    blocks = samples[..., : samples.shape[-1] // size * size].reshape(*samples.shape[:-1], -1, size)
    powers = xp.square(blocks).mean(axis=-1)
    is_active = (powers >= _ACTIVE_SHARE * powers.max(axis=-1, keepdims=True)) & (powers > 0)
    return (powers * is_active).sum(axis=-1) / xp.maximum(is_active.sum(axis=-1), 1)


def mixed(samples, noise, snr_db, rate: int, is_sample=None):
    """Samples [T] plus noise [T] at a ratio, in decibels, of the samples' active power to the noise's mean power.

    Silence is left as it is, and so are samples that are not is_sample [T].
    """
    xp = samples.__array_namespace__()
    if is_sample is None:
        is_sample = xp.ones(samples.shape, bool)
    samples = samples * is_sample
    noise = noise * is_sample
    noise_power = xp.square(noise).sum() / xp.maximum(is_sample.sum(), 1)
    wanted = active_power(samples, rate) * 10 ** (-snr_db / 10)
    scale = xp.sqrt(xp.where(noise_power > 0, wanted / xp.maximum(noise_power, 1e-30), 0))
    return samples + noise * scale.astype(samples.dtype)


def spec_augment(
    key: jax.Array,
    features: jax.Array,
    is_frame: jax.Array,
    *,
    num_band_masks: int = 2,
    most_bands: int = 8,
    num_frame_masks: int = 2,
    most_frames: int = 40,
) -> jax.Array:
    """Features [F, M] with some runs of bands and of frames replaced by each band's mean: SpecAugment.

    A run has at most a fifth of those where is_frame [F]; others stay. Park et al. 2019, without its warping of time.
    """
    band_key, frame_key = jax.random.split(key)
    count = is_frame.sum(dtype=jnp.int32)
    bands = features.shape[1]
    longest = jnp.minimum(most_frames, (0.2 * count.astype(jnp.float32)).astype(jnp.int32))
    is_masked = run_masks(band_key, num_band_masks, min(most_bands, bands), bands, bands)[None, :]
    is_masked = is_masked | run_masks(frame_key, num_frame_masks, longest, count, features.shape[0])[:, None]
    weight = is_frame[:, None].astype(features.dtype)
    mean = jnp.sum(features * weight, axis=0, keepdims=True) / jnp.maximum(count, 1)
    return jnp.where(is_masked & is_frame[:, None], mean, features)


def run_masks(key: jax.Array, num_masks: int, longest, count, size: int) -> jax.Array:
    """True in num_masks random runs, bool [size]: each 0 to `longest` long, all within the first `count` positions."""
    length_key, start_key = jax.random.split(key)
    lengths = jax.random.randint(length_key, (num_masks, 1), 0, jnp.minimum(longest, count) + 1, jnp.int32)
    starts = jax.random.randint(start_key, (num_masks, 1), 0, count - lengths + 1, jnp.int32)
    positions = jnp.arange(size)[None, :]
    return jnp.any((positions >= starts) & (positions < starts + lengths), axis=0)


def among_first(counts: jax.Array, size: int) -> jax.Array:
    """True at the first counts [...] positions of padded rows: bool [..., size].

    among_first([1, 3], 4) -> 1 0 0 0
                              1 1 1 0
    """
    counts = jnp.asarray(counts)[..., None]
    return jnp.arange(size).reshape((1,) * (counts.ndim - 1) + (-1,)) < counts
