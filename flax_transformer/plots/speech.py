"""Sounds, their spectra, and what speech models hear in them over time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from flax_transformer.plots.look import COLORS, clear_frame, color_of, make_figure, make_panels, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RANGE_DB = 80.0  # what a spectrogram shows below its maximum
SPECTRUM = 'magma'  # dark to light, evenly, for any colour vision
_TICKS_HZ = (100, 250, 500, 1000, 2000, 4000, 8000, 16_000)
_MOST_POINTS = 4000  # of a waveform's outline: more would not be seen
_LEAST_PROBABILITY = 0.1  # a unit that is never more probable is not drawn


class Span(NamedTuple):
    """A word, or another stretch of time."""

    text: str
    start: float  # seconds
    end: float


def plot_waveform(samples: np.ndarray, rate: int, *, words: Sequence[Span] = (), title: str = '') -> 'Figure':
    """Samples [T] over seconds; words are shaded, and written above."""
    figure, (axes,) = make_panels(8, 2.4)
    _draw_waveform(axes, samples, rate)
    _draw_words(axes, words)
    axes.set_xlabel('time (s)')
    axes.set_title(*plain([title]), loc='left', fontsize=11, pad=16 if words else None)
    return figure


def plot_frames(samples: np.ndarray, rate: int, *, window: int, hop: int) -> 'Figure':
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
    axes.set_title(f'frames of {1000 * window / rate:g} ms, one each {1000 * hop / rate:g} ms', loc='left', fontsize=11)
    return figure


def plot_spectrogram(power: np.ndarray, times: np.ndarray, hz: np.ndarray, *, title: str = '') -> 'Figure':
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


def plot_mel(features: np.ndarray, times: np.ndarray, hz: np.ndarray, *, title: str = '') -> 'Figure':
    """Log-mel features over seconds, each band as high as the others, in dB below the maximum.

    Args:
      features: [frames, bands], natural logarithms.
      times: [frames], the middle of each, in seconds, evenly spaced.
      hz: [bands], the middle of each.
    """
    figure, (axes,) = make_panels(8, 3.0)
    image = _draw_mel(axes, features, times, hz)
    axes.set_xlabel('time (s)')
    axes.set_title(*plain([title]), loc='left', fontsize=11)
    figure.colorbar(image, label='energy (dB)', pad=0.01)
    return figure


def plot_filters(filters: np.ndarray, hz: np.ndarray) -> 'Figure':
    """Mel filters [bins, bands] over the frequencies of the bins, [bins] in Hz."""
    figure, (axes,) = make_panels(8, 2.4)
    for band in range(filters.shape[1]):
        axes.plot(hz, 1000 * filters[:, band], color=color_of(band), linewidth=1.2)
    clear_frame(axes)
    axes.set(xlabel='frequency (Hz)', ylabel='weight (1/kHz)', xlim=(hz[0], hz[-1]), ylim=(0, None))
    return figure


def plot_transcript(
    samples: np.ndarray,
    rate: int,
    mel: tuple[np.ndarray, np.ndarray, np.ndarray],
    heard: tuple[np.ndarray, np.ndarray],
    units: Sequence[str],
    *,
    text: str,
    words: Sequence[Span] = (),
) -> 'Figure':
    """A recording in three panels over the same time: waveform, log-mel features, and what CTC hears in each frame.

    Args:
      samples: [T].
      mel: features [frames, bands], times [frames] and Hz [bands], as `plot_mel` takes them.
      heard: probabilities [N, V] and the times [N] of their frames, in seconds.
      units: V of them, the first the blank.
      text: what the most probable path collapses to, or what a search found.
      words: shaded in the waveform.
    """
    figure = make_figure(9, 6.6)
    wave, spectrum, panel = figure.subplots(3, 1, sharex=True, height_ratios=(1.6, 2.2, 2.2))
    _draw_waveform(wave, samples, rate)
    _draw_words(wave, words)
    image = _draw_mel(spectrum, *mel)
    figure.colorbar(image, ax=spectrum, label='energy (dB)', pad=0.01)
    _draw_units(panel, *heard, units)
    panel.set(xlabel='time (s)', xlim=(0, len(samples) / rate))
    panel.set_title(*plain([f'collapsed: {text}']), loc='left', fontsize=11)
    return figure


def plot_detections(
    probabilities: np.ndarray,
    times: np.ndarray,
    *,
    threshold: float,
    hits: Sequence[float],
    truth: Sequence[Span] = (),
    waveform: tuple[np.ndarray, int] | None = None,
) -> 'Figure':
    """The confidence of a detector over seconds, its threshold, the hits, and where the word was said.

    Args:
      probabilities: [N], of the trigger word.
      times: [N], in seconds.
      threshold: that a hit needs.
      hits: their times, in seconds.
      truth: where the word was said; shaded.
      waveform: samples [T] and their rate, for a panel above.
    """
    figure = make_figure(9, 4.2 if waveform else 2.8)
    panels = figure.subplots(2 if waveform else 1, 1, sharex=True, squeeze=False)[:, 0]
    if waveform:
        _draw_waveform(panels[0], *waveform)
        _draw_words(panels[0], truth)
    axes = panels[-1]
    for span in truth:
        axes.axvspan(span.start, span.end, color=COLORS[2], alpha=0.2, linewidth=0, label='word said')
    axes.axhline(threshold, color='0.4', linestyle='--', linewidth=1, label=f'threshold {threshold:g}')
    axes.plot(times, probabilities, color=COLORS[0], linewidth=1.4, label='probability')
    axes.plot(hits, np.full(len(hits), 1.06), 'v', color=COLORS[1], markersize=8, label='hit', clip_on=False)
    clear_frame(axes)
    axes.set(xlabel='time (s)', ylabel='probability', ylim=(0, 1.1), yticks=(0, 0.25, 0.5, 0.75, 1))
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    figure.legend(once.values(), once.keys(), loc='outside lower center', ncols=4, frameon=False)
    return figure


def plot_detection_curve(
    false_accepts: np.ndarray,
    false_rejects: np.ndarray,
    *,
    rejects_interval: tuple[np.ndarray, np.ndarray] | None = None,
    chosen: tuple[float, float] | None = None,
    chosen_accepts: tuple[float, float] | None = None,
    title: str = '',
) -> 'Figure':
    """False rejects against false accepts per hour, as the threshold moves; lower and further left is better.

    Args:
      false_accepts: [N], per hour; the axis is linear up to the smallest that is not 0, and logarithmic from there.
      false_rejects: [N], a share.
      rejects_interval: the lower and upper ends [N] of an interval for each share; shaded.
      chosen: false accepts and false rejects at the threshold that was chosen.
      chosen_accepts: the interval of its false accepts.
    """
    figure, (axes,) = make_panels(5.6, 4.0)
    order = np.lexsort((-np.asarray(false_rejects), false_accepts))
    x, y = np.asarray(false_accepts)[order], 100 * np.asarray(false_rejects)[order]
    if rejects_interval is not None:
        low, high = (100 * np.asarray(end)[order] for end in rejects_interval)
        axes.fill_between(x, low, high, color=COLORS[0], alpha=0.15, linewidth=0, label='95 % interval')
    axes.plot(x, y, color=COLORS[0], marker='o', markersize=3, linewidth=1.4, label='one point a threshold')
    if chosen is not None:
        ends = None if chosen_accepts is None else np.abs(np.array(chosen_accepts)[:, None] - chosen[0])
        axes.errorbar(
            chosen[0], 100 * chosen[1], xerr=ends, fmt='D', color=COLORS[1], capsize=4, markersize=7, label='chosen',
            zorder=3,
        )  # fmt: skip
    clear_frame(axes)
    positive = x[x > 0]
    smallest = float(positive.min()) if len(positive) else 1.0
    axes.set_xscale('symlog', linthresh=smallest)
    powers = 10.0 ** np.arange(np.ceil(np.log10(smallest)), 6)
    ticks = [0.0, *powers[powers <= max(float(x.max(initial=0)), powers[0])]]
    axes.set_xticks(ticks, [f'{tick:g}' for tick in ticks])
    axes.minorticks_off()
    axes.set(xlabel='false accepts per hour', ylabel='false rejects (%)')
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_title(*plain([title]), loc='left', fontsize=11)
    axes.legend(frameon=False)
    return figure


def plot_confusion(
    counts: np.ndarray, said: Sequence[str], heard: Sequence[str] | None = None, *, title: str = ''
) -> 'Figure':
    """How often each word, [rows], was heard as each, [columns]: numbers, and shares of the row as colours.

    `heard` names the columns; None: they are the words of the rows.
    """
    counts = np.asarray(counts)
    heard = said if heard is None else heard
    figure, (axes,) = make_panels(2.2 + 0.45 * len(heard), 1.6 + 0.45 * len(said))
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, cmap='Blues', vmin=0, vmax=1)
    for (row, column), count in np.ndenumerate(counts):
        if count:
            shade = 'white' if shares[row, column] > 0.6 else 'black'
            axes.text(column, row, str(count), ha='center', va='center', color=shade, fontsize=9)
    axes.set_xticks(range(len(heard)), plain(heard), rotation=0 if max(map(len, heard)) < 4 else 45)
    axes.set_yticks(range(len(said)), plain(said))
    axes.tick_params(length=0)
    axes.spines[:].set_color('0.7')
    axes.set(xlabel='heard', ylabel='said')
    axes.set_title(*plain([title]), loc='left', fontsize=11)
    figure.colorbar(image, label='share of what was said', shrink=0.8)
    return figure


def decibels(power: np.ndarray) -> np.ndarray:
    """Power in dB below its maximum, at least -RANGE_DB."""
    power = np.asarray(power, float)
    top = max(float(power.max(initial=0)), 1e-30)
    return 10 * np.log10(np.maximum(power / top, 10 ** (-RANGE_DB / 10)))


def _draw_waveform(axes: 'Axes', samples: np.ndarray, rate: int) -> None:
    """The samples; of many, the lowest and the highest of each stretch."""
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


def _draw_words(axes: 'Axes', words: Sequence[Span]) -> None:
    for number, word in enumerate(words):
        axes.axvspan(word.start, word.end, color=COLORS[2], alpha=0.12 + 0.1 * (number % 2), linewidth=0)
        middle = (word.start + word.end) / 2
        (text,) = plain([word.text])
        axes.annotate(
            text, (middle, 1), xycoords=('data', 'axes fraction'), xytext=(0, 2), textcoords='offset points',
            ha='center', va='bottom', fontsize=9,
        )  # fmt: skip


def _draw_spectrum(axes: 'Axes', values: np.ndarray, times: np.ndarray, *, bottom: float, top: float):
    hop = (times[-1] - times[0]) / max(len(times) - 1, 1) or 0.01
    extent = (times[0] - hop / 2, times[-1] + hop / 2, bottom, top)
    image = axes.imshow(values.T, origin='lower', aspect='auto', cmap=SPECTRUM, extent=extent, interpolation='nearest')
    axes.spines[:].set_visible(False)
    return image


def _draw_mel(axes: 'Axes', features: np.ndarray, times: np.ndarray, hz: np.ndarray):
    bands = len(hz)
    image = _draw_spectrum(axes, decibels(np.exp(features)), times, bottom=-0.5, top=bands - 0.5)
    ticks = [tick for tick in _TICKS_HZ if hz[0] <= tick <= hz[-1]]
    axes.set_yticks(np.interp(ticks, hz, np.arange(bands)), [f'{tick:,}' for tick in ticks])
    axes.set_ylabel('mel band (Hz)')
    return image


def _draw_units(axes: 'Axes', probabilities: np.ndarray, times: np.ndarray, units: Sequence[str]) -> None:
    """A line for the blank and for each unit that is probable somewhere, with its name above each of its peaks."""
    axes.plot(times, probabilities[:, 0], color='0.6', linestyle='--', linewidth=1)
    axes.set_title('dashed: blank', loc='right', fontsize=9, color='0.4')
    for unit in range(1, len(units)):
        line = probabilities[:, unit]
        if line.max(initial=0) < _LEAST_PROBABILITY:
            continue
        axes.plot(times, line, color=color_of(unit - 1), linewidth=1.3)
        for peak in _peaks(line):
            (name,) = plain([units[unit] if units[unit].strip() else '␣'])
            axes.text(times[peak], line[peak] + 0.03, name, ha='center', va='bottom', color=color_of(unit - 1))
    clear_frame(axes)
    axes.set(ylabel='probability', ylim=(0, 1.2), yticks=(0, 0.5, 1))


def _peaks(line: np.ndarray) -> list[int]:
    """The highest place of each run above half; of equals the middle.

    >>> _peaks(np.array([0.0, 0.6, 0.9, 0.6, 0.1, 0.7, 0.7, 0.7]))
    [2, 6]
    """
    is_above = np.concatenate([[False], line > 0.5, [False]])
    edges = np.flatnonzero(is_above[1:] != is_above[:-1]).reshape(-1, 2)
    found = []
    for start, end in edges:
        best = np.flatnonzero(line[start:end] == line[start:end].max())
        found.append(int(start + best[len(best) // 2]))
    return found
