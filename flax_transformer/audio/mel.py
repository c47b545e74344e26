"""What log-mel features are: their config, their frames, and the mel filter bank; in NumPy alone."""

import functools
from dataclasses import dataclass

import numpy as np

from flax_transformer.common.fields import check, check_positive, check_range, check_types

_LONGEST_WINDOW = 1 << 16  # samples; the filter bank has a row for each frequency of a window
_MOST_MELS = 256
_LINEAR_HZ = 1000.0  # Slaney's scale is linear below, 200 / 3 Hz a mel, and logarithmic above
_LINEAR_MELS = 15.0
_MEL_STEP = np.log(6.4) / 27.0


@dataclass(frozen=True)
class FeatureConfig:
    """How a waveform becomes log-mel features."""

    sample_rate: int = 16_000  # Hz; recordings at another rate are resampled
    window_ms: float = 25.0  # each frame's samples
    hop_ms: float = 10.0  # a frame starts this long after the one before
    num_mels: int = 40  # bands; 80 at 16 kHz is usual, too
    lowest_hz: float = 20.0  # edges of the lowest and the highest band
    highest_hz: float | None = None  # None: half of sample_rate

    def __post_init__(self) -> None:
        check_types(self)
        check_positive(self, 'sample_rate')
        check_range(self, 'num_mels', least=1, most=_MOST_MELS)
        check(self.hop >= 1, f'hop_ms={self.hop_ms}: expected at least one sample of {self.sample_rate} Hz')
        check(
            2 <= self.window <= _LONGEST_WINDOW,
            f'window_ms={self.window_ms}: {self.window:,} samples; expected 2 to {_LONGEST_WINDOW:,}',
        )
        nyquist = self.sample_rate / 2
        check(
            0 <= self.lowest_hz < self.top_hz <= nyquist,
            f'lowest_hz={self.lowest_hz} and highest_hz={self.highest_hz}: expected 0 <= lowest_hz < highest_hz <= '
            f'{nyquist:g}, half of sample_rate',
        )
        empty = int(np.sum(~mel_filters(self).any(axis=0)))
        check(
            not empty,
            f'num_mels={self.num_mels}: {empty} bands are narrower than the spectrum resolves; expected fewer, or a '
            'longer window_ms',
        )

    @property
    def window(self) -> int:
        return round(self.sample_rate * self.window_ms / 1000)

    @property
    def hop(self) -> int:
        return round(self.sample_rate * self.hop_ms / 1000)

    @property
    def fft_size(self) -> int:
        return 1 << (self.window - 1).bit_length()

    @property
    def top_hz(self) -> float:
        return self.sample_rate / 2 if self.highest_hz is None else self.highest_hz


def num_frames(samples, config: FeatureConfig):
    """The number of frames in so many samples, an int or an integer array: (samples - window) // hop + 1, at least 0.

    Nothing is centered or padded: frame i covers the samples from i * hop to i * hop + window.
    """
    count = (samples - config.window) // config.hop + 1
    return count * (count > 0)


def frame_seconds(frames, config: FeatureConfig):
    """The middle of frames, given by number, in seconds."""
    return (frames * config.hop + config.window / 2) / config.sample_rate


@functools.lru_cache
def mel_filters(config: FeatureConfig) -> np.ndarray:
    """Triangular filters, float32 [fft_size // 2 + 1, num_mels], evenly spaced on Slaney's mel scale.

    Each has an area of 1 Hz: Slaney's Auditory Toolbox (1998), as in librosa and Whisper, not HTK.
    """
    edges = mel_edges(config)
    frequencies = np.arange(config.fft_size // 2 + 1)[:, None] * (config.sample_rate / config.fft_size)
    left = edges[:-2]
    middle = edges[1:-1]
    right = edges[2:]
    rising = (frequencies - left) / (middle - left)
    falling = (right - frequencies) / (right - middle)
    triangles = np.maximum(0, np.minimum(rising, falling))
    filters = (triangles * (2 / (right - left))).astype(np.float32)
    filters.setflags(write=False)  # all callers get the same array
    return filters


def mel_edges(config: FeatureConfig) -> np.ndarray:
    """The frequencies, in Hz [num_mels + 2], where filters begin, peak and end: filter i at i to i + 2."""
    return mel_to_hz(np.linspace(hz_to_mel(config.lowest_hz), hz_to_mel(config.top_hz), config.num_mels + 2))


def hz_to_mel(hz) -> np.ndarray:
    """Slaney's mel scale: 0 to 15 up to 1,000 Hz, then 27 mels for each factor of 6.4."""
    log_part = np.log(np.maximum(hz, _LINEAR_HZ) / _LINEAR_HZ) / _MEL_STEP
    return np.where(hz < _LINEAR_HZ, hz * _LINEAR_MELS / _LINEAR_HZ, _LINEAR_MELS + log_part)


def mel_to_hz(mels) -> np.ndarray:
    log_part = np.exp(_MEL_STEP * (np.maximum(mels, _LINEAR_MELS) - _LINEAR_MELS))
    return np.where(mels < _LINEAR_MELS, mels * _LINEAR_HZ / _LINEAR_MELS, _LINEAR_HZ * log_part)
