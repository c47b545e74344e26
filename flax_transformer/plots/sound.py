"""Sounds and their spectra over time."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .look import COLORS, Axes, clear_frame, plain

RANGE_DB = 80.0  # what a spectrogram shows below its maximum
SPECTRUM = 'magma'  # dark to light, evenly, for any color vision
_TICKS_HZ = (100, 250, 500, 1000, 2000, 4000, 8000, 16_000)
_MOST_POINTS = 4000  # a waveform's outline has no more: they would not be seen


class Span(NamedTuple):
    """A word, or another stretch of time."""

    text: str
    start: float  # seconds
    end: float


def decibels(power: np.ndarray) -> np.ndarray:
    """Power in dB below its maximum, at least -RANGE_DB."""
    power = np.asarray(power, float)
    top = max(float(power.max(initial=0)), 1e-30)
    return 10 * np.log10(np.maximum(power / top, 10 ** (-RANGE_DB / 10)))


def draw_waveform(axes: Axes, samples: np.ndarray, rate: int) -> None:
    """Draws samples over seconds: of many, the lowest and the highest of each stretch."""
    seconds = len(samples) / rate
    if len(samples) <= _MOST_POINTS:
        axes.plot(np.arange(len(samples)) / rate, samples, color=COLORS[0], linewidth=0.8)
    else:
        parts = np.array_split(np.asarray(samples), _MOST_POINTS // 2)
        low = [part.min() for part in parts]
        high = [part.max() for part in parts]
        times = (np.arange(len(parts)) + 0.5) * seconds / len(parts)
        axes.fill_between(times, low, high, color=COLORS[0], linewidth=0.4)
    clear_frame(axes)
    height = max(1.1 * float(np.abs(samples).max(initial=0)), 1e-3)
    axes.set(ylabel='amplitude', xlim=(0, max(seconds, 1e-3)), ylim=(-height, height))


def draw_words(axes: Axes, words: Sequence[Span]) -> None:
    for number, word in enumerate(words):
        axes.axvspan(word.start, word.end, color=COLORS[2], alpha=0.12 + 0.1 * (number % 2), linewidth=0)
        middle = (word.start + word.end) / 2
        (text,) = plain([word.text])
        axes.annotate(
            text, (middle, 1), xycoords=('data', 'axes fraction'), xytext=(0, 2), textcoords='offset points',
            ha='center', va='bottom', fontsize=9,
        )  # fmt: skip


def draw_spectrum(axes: Axes, values: np.ndarray, times: np.ndarray, *, bottom: float, top: float):
    """Draws values [frames, bins] over seconds; the image, for a color bar."""
    hop = (times[-1] - times[0]) / max(len(times) - 1, 1) or 0.01
    extent = (times[0] - hop / 2, times[-1] + hop / 2, bottom, top)
    image = axes.imshow(values.T, origin='lower', aspect='auto', cmap=SPECTRUM, extent=extent, interpolation='nearest')
    axes.spines[:].set_visible(False)
    return image


def draw_mel(axes: Axes, features: np.ndarray, times: np.ndarray, hz: np.ndarray):
    """Draws log-mel features [frames, bands] over seconds, in dB below the maximum; the image, for a color bar.

    `times` [frames] and `hz` [bands] are the middle of each.
    """
    bands = len(hz)
    image = draw_spectrum(axes, decibels(np.exp(features)), times, bottom=-0.5, top=bands - 0.5)
    ticks = [tick for tick in _TICKS_HZ if hz[0] <= tick <= hz[-1]]
    axes.set_yticks(np.interp(ticks, hz, np.arange(bands)), [f'{tick:,}' for tick in ticks])
    axes.set_ylabel('mel band (Hz)')
    return image
