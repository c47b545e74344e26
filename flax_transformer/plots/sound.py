"""Sounds and their spectra over time."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from flax_transformer.plots.look import COLORS, Axes, Figure, clear_frame, color_of, make_panels, plain

RANGE_DB = 80.0  # what a spectrogram shows below its maximum
SPECTRUM = 'magma'  # dark to light, evenly, for any color vision
_TICKS_HZ = (100, 250, 500, 1000, 2000, 4000, 8000, 16_000)
_MOST_POINTS = 4000  # a waveform's outline has no more: they would not be seen


class Span(NamedTuple):
    """A word, or another stretch of time."""

    text: str
    start: float  # seconds
    end: float


def plot_waveform(samples: np.ndarray, rate: int, *, words: Sequence[Span] = (), title: str = '') -> Figure:
    """Samples [T] over seconds; words are shaded, and written above."""
    figure, (axes,) = make_panels(8, 2.4)
    draw_waveform(axes, samples, rate)
    draw_words(axes, words)
    axes.set_xlabel('time (s)')
    axes.set_title(*plain([title]), loc='left', fontsize=11, pad=16 if words else None)
    return figure


def plot_frames(samples: np.ndarray, rate: int, *, window: int, hop: int) -> Figure:
    """Samples [T] of a short sound, and the window of each frame over them; lengths are in samples."""
    figure, (axes,) = make_panels(8, 3.2)
    milliseconds = 1000 * np.arange(len(samples)) / rate
    axes.plot(milliseconds, samples, color='0.55', linewidth=0.8)
    height = float(np.abs(samples).max(initial=1e-9))
    shape = height * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window + 1) / window))
    for number, start in enumerate(range(0, len(samples) - window + 1, hop)):
        times = 1000 * (start + np.arange(window + 1)) / rate
        axes.plot(times, shape, color=color_of(number), linewidth=1.6)
        axes.text(times[window // 2], 1.04 * height, str(number), ha='center', va='bottom', color=color_of(number))
    clear_frame(axes)
    axes.set(xlabel='time (ms)', ylabel='amplitude', ylim=(-1.1 * height, 1.25 * height))
    axes.set_title(f'frames of {1000 * window / rate:g} ms, every {1000 * hop / rate:g} ms', loc='left', fontsize=11)
    return figure


def plot_spectrogram(power: np.ndarray, times: np.ndarray, hz: np.ndarray, *, title: str = '') -> Figure:
    """Power over seconds and Hz, in dB below its maximum.

    Args:
      power: [frames, bins], at least 0.
      times: [frames], the middle of each, in seconds, evenly spaced.
      hz: [bins], evenly spaced.
    """
    figure, (axes,) = make_panels(8, 3.4)
    image = _draw_spectrum(axes, decibels(power), times, bottom=hz[0], top=hz[-1])
    axes.set(xlabel='time (s)', ylabel='frequency (Hz)')
    axes.set_title(*plain([title]), loc='left', fontsize=11)
    figure.colorbar(image, label='power (dB)', pad=0.01)
    return figure


def plot_mel(features: np.ndarray, times: np.ndarray, hz: np.ndarray) -> Figure:
    """Log-mel features over seconds, each band as high as the others, in dB below the maximum.

    Args:
      features: [frames, bands], natural logarithms.
      times: [frames], the middle of each, in seconds, evenly spaced.
      hz: [bands], the middle of each.
    """
    figure, (axes,) = make_panels(8, 3.0)
    image = draw_mel(axes, features, times, hz)
    axes.set_xlabel('time (s)')
    figure.colorbar(image, label='energy (dB)', pad=0.01)
    return figure


def plot_filters(filters: np.ndarray, hz: np.ndarray) -> Figure:
    """Mel filters [bins, bands] over the frequencies of the bins, [bins] in Hz."""
    figure, (axes,) = make_panels(8, 2.4)
    for band in range(filters.shape[1]):
        axes.plot(hz, 1000 * filters[:, band], color=color_of(band), linewidth=1.2)
    clear_frame(axes)
    axes.set(xlabel='frequency (Hz)', ylabel='weight (1/kHz)', xlim=(hz[0], hz[-1]), ylim=(0, None))
    return figure


def decibels(power: np.ndarray) -> np.ndarray:
    """Power in dB below its maximum, at least -RANGE_DB."""
    power = np.asarray(power, float)
    top = max(float(power.max(initial=0)), 1e-30)
    return 10 * np.log10(np.maximum(power / top, 10 ** (-RANGE_DB / 10)))


def draw_waveform(axes: Axes, samples: np.ndarray, rate: int) -> None:
    """Draws samples over seconds; of many, the lowest and the highest of each stretch."""
    seconds = len(samples) / rate
    if len(samples) <= _MOST_POINTS:
        axes.plot(np.arange(len(samples)) / rate, samples, color=COLORS[0], linewidth=0.8)
    else:
        parts = np.array_split(np.asarray(samples), _MOST_POINTS // 2)
        low, high = [part.min() for part in parts], [part.max() for part in parts]
        times = (np.arange(len(parts)) + 0.5) * seconds / len(parts)
        axes.fill_between(times, low, high, color=COLORS[0], linewidth=0.4)
    clear_frame(axes)
    height = max(1.1 * float(np.abs(samples).max(initial=0)), 1e-3)
    axes.set(ylabel='amplitude', xlim=(0, max(seconds, 1e-3)), ylim=(-height, height))


def draw_words(axes: Axes, words: Sequence[Span]) -> None:
    """Shades where words are, and writes them above."""
    for number, word in enumerate(words):
        axes.axvspan(word.start, word.end, color=COLORS[2], alpha=0.12 + 0.1 * (number % 2), linewidth=0)
        middle = (word.start + word.end) / 2
        (text,) = plain([word.text])
        axes.annotate(
            text, (middle, 1), xycoords=('data', 'axes fraction'), xytext=(0, 2), textcoords='offset points',
            ha='center', va='bottom', fontsize=9,
        )  # fmt: skip


def _draw_spectrum(axes: Axes, values: np.ndarray, times: np.ndarray, *, bottom: float, top: float):
    hop = (times[-1] - times[0]) / max(len(times) - 1, 1) or 0.01
    extent = (times[0] - hop / 2, times[-1] + hop / 2, bottom, top)
    image = axes.imshow(values.T, origin='lower', aspect='auto', cmap=SPECTRUM, extent=extent, interpolation='nearest')
    axes.spines[:].set_visible(False)
    return image


def draw_mel(axes: Axes, features: np.ndarray, times: np.ndarray, hz: np.ndarray):
    """Draws log-mel features as `plot_mel` takes them; the image, for a color bar."""
    bands = len(hz)
    image = _draw_spectrum(axes, decibels(np.exp(features)), times, bottom=-0.5, top=bands - 0.5)
    ticks = [tick for tick in _TICKS_HZ if hz[0] <= tick <= hz[-1]]
    axes.set_yticks(np.interp(ticks, hz, np.arange(bands)), [f'{tick:,}' for tick in ticks])
    axes.set_ylabel('mel band (Hz)')
    return image
