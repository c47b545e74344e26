"""Log-mel features of a waveform: framing, window, power spectrum, mel filter bank, logarithm."""

import jax
import jax.numpy as jnp
import numpy as np

from .mel import FeatureConfig, mel_filters, num_frames

# Added to each mel energy: 96 dB below a tone at full scale, and above the rounding of 16 bits, so digital silence is
# finite and looks like a quiet recording.
LOG_FLOOR = 1e-8


def framed(samples: jax.Array, config: FeatureConfig) -> jax.Array:
    """The samples of each frame, [..., T] -> [..., frames, window], by slices of blocks of hop samples.

    window 5, hop 2:  0 1 | 2 3 | 4 5 | 6 7 | 8  ->  0 1 2 3 4
                                                     2 3 4 5 6
                                                     4 5 6 7 8
    """
    frames = num_frames(samples.shape[-1], config)
    parts = -(-config.window // config.hop)  # blocks that a frame needs, the last one in part
    needed = max(frames + parts - 1, 0) * config.hop
    samples = samples[..., :needed]
    padding = [(0, 0)] * (samples.ndim - 1) + [(0, needed - samples.shape[-1])]  # not in any frame
    blocks = jnp.pad(samples, padding).reshape(*samples.shape[:-1], -1, config.hop)
    columns = [blocks[..., part : part + frames, :] for part in range(parts)]
    return jnp.concatenate(columns, axis=-1)[..., : config.window]


def power_spectrum(samples: jax.Array, config: FeatureConfig) -> jax.Array:
    """The power of each Hann-windowed frame's frequencies, [..., T] -> [..., frames, fft_size // 2 + 1]."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(config.window) / config.window)
    window = window.astype(samples.dtype).reshape((1,) * samples.ndim + (-1,))
    spectrum = jnp.fft.rfft(framed(samples, config) * window, config.fft_size)
    return jnp.square(spectrum.real) + jnp.square(spectrum.imag)


def log_mel(samples: jax.Array, config: FeatureConfig) -> jax.Array:
    """The natural logarithm of mel energies plus LOG_FLOOR, of samples in -1..1: [..., T] -> [..., frames, num_mels].

    Energies are those of librosa's `melspectrogram` with `center=False`.
    """
    energies = jnp.matmul(power_spectrum(samples, config), mel_filters(config), precision='highest')
    return jnp.log(energies + LOG_FLOOR)
