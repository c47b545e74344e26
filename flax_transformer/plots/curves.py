"""Curves of training runs, learning-rate schedules and anything else; scores by the length of the source."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from .look import MARKERS, Axes, Figure, clear_frame, color_of, legend_below, make_panels, plain, use_fonts

Points = Sequence[tuple[int, float]]  # (step, value)
Curve = tuple[Sequence[float], Sequence[float]]  # across, up
MANY = 24  # points from which a curve is a line without markers


def plot_learning_curves(
    panels: Mapping[str, Sequence[Points]], runs: Sequence[str], *, marked: Sequence[str] = (), units: Mapping[str, str]
) -> Figure:
    """A panel for each title, with a line for each run; `marked` ones show each point."""
    rows = max(-(-len(panels) // 2), 1)
    columns = min(len(panels), 2)
    figure, all_axes = make_panels(6 * columns, 3.6 * rows, rows, columns)
    for axes in all_axes[len(panels) :]:
        axes.remove()
    for axes, (title, curves) in zip(all_axes, panels.items(), strict=False):
        for number, points in enumerate(curves):
            if points:
                rank = curves[:number].count(points)
                count = curves.count(points)
                marker = {'marker': 'o', 'markersize': 3 + 3 * (count - 1 - rank)} if title in marked else {}
                # Equal curves, drawn one over the other, each show an equal part of the line.
                dashes = '-' if rank == 0 else (0, (4.0 * (count - rank), 4.0 * rank))
                axes.plot(*zip(*points, strict=True), color=color_of(number), linestyle=dashes, **marker)
        axes.set(title=title, xlabel='step', ylabel=units.get(title, ''))
        clear_frame(axes)
    handles = [all_axes[0].plot([], [], color=color_of(number))[0] for number in range(len(runs))]
    figure.legend(handles, plain(runs), loc='outside upper center', ncols=min(len(runs), 3))
    return figure


def plot_lines(
    curves: Mapping[str, Curve] | Mapping[str, Mapping[str, Curve]],
    *,
    xlabel: str,
    ylabel: str,
    xscale: Literal['linear', 'log2', 'log10'] = 'linear',
    yscale: Literal['linear', 'log2', 'log10'] = 'linear',
    title: str = '',
) -> Figure:
    """Curves by name, or panels of them by title; the same name has the same color in all."""
    has_panels = any(isinstance(value, Mapping) for value in curves.values())
    panels_of = curves if has_panels else {title: curves}
    names = list(dict.fromkeys(name for panel in panels_of.values() for name in panel))
    count = len(panels_of)
    figure, panels = make_panels(6.2 if count == 1 else 4.2 * count, 3.8, columns=count)
    for axes, (heading, panel) in zip(panels, panels_of.items(), strict=True):
        for name, (across, up) in panel.items():
            number = names.index(name)
            marker = MARKERS[number % len(MARKERS)] if len(across) < MANY else None
            axes.plot(across, up, color=color_of(number), marker=marker, markersize=5, label=plain([name])[0])
        _scale(axes, xscale, yscale, panel.values())
        axes.set_xlabel(xlabel)
        axes.set_title(heading, fontsize=11)
        clear_frame(axes)
    panels[0].set_ylabel(ylabel)
    if any(names):
        legend_below(figure, panels, columns=5)
    return figure


def plot_schedule(rates: Mapping[str, Sequence[float]], *, steps: Sequence[int] | None = None) -> Figure:
    """Learning rates by name, of `steps`, by default 1, 2, ..."""
    curves = {name: (np.arange(1, len(rate) + 1) if steps is None else steps, rate) for name, rate in rates.items()}
    return plot_lines(curves, xlabel='step', ylabel='learning rate')


def plot_lengths(
    scores: Mapping[str, Sequence[float]],
    lengths: Sequence[str],
    *,
    counts: Sequence[int],
    ylabel: str,
    unit: str,
) -> Figure:
    """Scores of each system in buckets by the length of the source, such as '0-10' words."""
    names = [f'{length}\n{count:,} lines' for length, count in zip(lengths, counts, strict=True)]
    return plot_bars(scores, names, xlabel=f'length of the source ({unit})', ylabel=ylabel)


def plot_bars(
    heights: Mapping[str, Sequence[float]], names: Sequence[str], *, xlabel: str, ylabel: str, digits: int = 1
) -> Figure:
    """Groups of bars, each with its height: one bar for each series, one group for each name."""
    figure, (axes,) = make_panels(max(5.0, 1.6 + 1.1 * len(names)), 3.8)
    width = 0.8 / len(heights)
    for number, (name, values) in enumerate(heights.items()):
        across = np.arange(len(names)) + (number - (len(heights) - 1) / 2) * width
        bars = axes.bar(across, values, width * 0.92, color=color_of(number), label=plain([name])[0])
        axes.bar_label(bars, [f'{value:.{digits}f}' for value in values], fontsize=8, padding=2)
    axes.set_xticks(range(len(names)), names)
    use_fonts(axes.get_xticklabels())
    axes.set(xlabel=xlabel, ylabel=ylabel)
    clear_frame(axes)
    axes.grid(visible=False, axis='x')
    axes.tick_params(axis='x', length=0)
    if len(heights) > 1:
        legend_below(figure, [axes], columns=4)
    return figure


def _scale(axes: Axes, xscale: str, yscale: str, curves: Sequence[Curve]) -> None:
    """Axes by the powers of 2, with a tick at each value if these are few, or 10."""
    for name, scale in (('x', xscale), ('y', yscale)):
        if scale != 'linear':
            getattr(axes, f'set_{name}scale')('log', base=int(scale.removeprefix('log')))
    if xscale == 'log2':
        values = sorted({float(value) for across, _ in curves for value in across})
        if len(values) <= 10:
            axes.set_xticks(values, [f'{value:g}' for value in values])
            axes.minorticks_off()
