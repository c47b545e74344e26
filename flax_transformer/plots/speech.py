"""What speech models hear over time, and how well."""

from collections.abc import Sequence

import numpy as np

from .look import COLORS, Axes, Figure, clear_frame, color_of, legend_below, make_figure, make_panels, plain
from .sound import Span, draw_mel, draw_waveform, draw_words

_LEAST_PROBABILITY = 0.1  # a unit that is never more probable is not drawn


def plot_transcript(
    samples: np.ndarray,
    rate: int,
    mel: tuple[np.ndarray, np.ndarray, np.ndarray],
    heard: tuple[np.ndarray, np.ndarray],
    units: Sequence[str],
    *,
    text: str,
    words: Sequence[Span] = (),
) -> Figure:
    """A recording over time: its waveform, log-mel features, and what CTC hears in each frame.

    Args:
      mel: as `draw_mel` takes them.
      heard: probabilities [N, V] and the times [N] of their frames, in seconds.
      units: V of them, the first the blank.
      words: shaded in the waveform.
    """
    figure = make_figure(9, 6.6)
    wave, spectrum, panel = figure.subplots(3, 1, sharex=True, height_ratios=(1.6, 2.2, 2.2))
    draw_waveform(wave, samples, rate)
    draw_words(wave, words)
    image = draw_mel(spectrum, *mel)
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
) -> Figure:
    """The probabilities [N] of a trigger word at `times` [N] in seconds, the hits, and where it was said.

    `waveform`: samples [T] and their rate, for a panel above.
    """
    figure = make_figure(9, 4.2 if waveform else 2.8)
    panels = figure.subplots(2 if waveform else 1, 1, sharex=True, squeeze=False)[:, 0]
    if waveform:
        draw_waveform(panels[0], *waveform)
        draw_words(panels[0], truth)
    axes = panels[-1]
    for span in truth:
        axes.axvspan(span.start, span.end, color=COLORS[2], alpha=0.2, linewidth=0, label='word said')
    axes.axhline(threshold, color='0.4', linestyle='--', linewidth=1, label=f'threshold {threshold:g}')
    axes.plot(times, probabilities, color=COLORS[0], linewidth=1.4, label='probability')
    axes.plot(hits, np.full(len(hits), 1.06), 'v', color=COLORS[1], markersize=8, label='hit', clip_on=False)
    clear_frame(axes)
    axes.set(xlabel='time (s)', ylabel='probability', ylim=(0, 1.1), yticks=(0, 0.25, 0.5, 0.75, 1))
    legend_below(figure, panels, columns=4)
    return figure


def plot_detection_curve(
    false_accepts: np.ndarray,
    false_rejects: np.ndarray,
    *,
    rejects_interval: tuple[np.ndarray, np.ndarray],
    chosen: tuple[float, float],
    chosen_accepts: tuple[float, float],
    title: str,
) -> Figure:
    """False rejects, a share [N], against false accepts per hour [N], as the threshold moves.

    Args:
      rejects_interval: the lower and upper ends [N] of an interval for each share.
      chosen: false accepts and false rejects at the threshold that was chosen.
      chosen_accepts: the interval of its false accepts.
    """
    figure, (axes,) = make_panels(5.6, 4.0)
    order = np.lexsort((-np.asarray(false_rejects), false_accepts))
    x = np.asarray(false_accepts)[order]
    y = 100 * np.asarray(false_rejects)[order]
    low, high = (100 * np.asarray(end)[order] for end in rejects_interval)

    axes.fill_between(x, low, high, color=COLORS[0], alpha=0.15, linewidth=0, label='95 % interval')
    axes.plot(x, y, 'o-', color=COLORS[0], markersize=3, linewidth=1.4, label='one point a threshold', clip_on=False)
    ends = np.abs(np.array(chosen_accepts)[:, None] - chosen[0])
    axes.errorbar(
        chosen[0], 100 * chosen[1], xerr=ends, fmt='D', color=COLORS[1], capsize=4, markersize=7, label='chosen',
        zorder=3, clip_on=False,
    )  # fmt: skip
    clear_frame(axes)

    positive = x[x > 0]
    smallest = float(positive.min()) if len(positive) else 1.0
    axes.set_xscale('symlog', linthresh=smallest)  # linear up to there, for 0
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


def plot_confusion(counts: np.ndarray, said: Sequence[str], heard: Sequence[str]) -> Figure:
    """How often each word (rows) was heard as each (columns); shares of the row as colors."""
    counts = np.asarray(counts)
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
    figure.colorbar(image, label='share of what was said', shrink=0.8)
    return figure


def _draw_units(axes: Axes, probabilities: np.ndarray, times: np.ndarray, units: Sequence[str]) -> None:
    """Lines of the blank and of units that are probable somewhere, with their names above their peaks."""
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
    """The highest position of each run above half; of equals the middle.

    >>> _peaks(np.array([0.0, 0.6, 0.9, 0.6, 0.1, 0.7, 0.7, 0.7]))
    [2, 6]
    """
    is_above = np.concatenate([[False], line > 0.5, [False]])
    edges = np.flatnonzero(is_above[1:] != is_above[:-1]).reshape(-1, 2)
    peaks = []
    for start, end in edges:
        best = np.flatnonzero(line[start:end] == line[start:end].max())
        peaks.append(int(start + best[len(best) // 2]))
    return peaks
