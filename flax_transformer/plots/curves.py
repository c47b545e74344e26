"""Learning curves of several runs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flax_transformer.plots.look import clear_frame, color_of, make_panels, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Points = Sequence[tuple[int, float]]  # (step, value)


def plot_learning_curves(
    panels: Mapping[str, Sequence[Points]], runs: Sequence[str], *, marked: Sequence[str] = (), units: Mapping[str, str]
) -> 'Figure':
    """A panel by title, with a line for each run that has points there; `marked` ones show each point.

    Args:
      panels: for each, the points of each run, none where it has none.
      units: of the values, by the panel's title.
    """
    rows, columns = max(-(-len(panels) // 2), 1), min(len(panels), 2)
    figure, all_axes = make_panels(6 * columns, 3.6 * rows, rows, columns)
    for axes in all_axes[len(panels) :]:
        axes.remove()
    for axes, (title, curves) in zip(all_axes, panels.items(), strict=False):
        for number, points in enumerate(curves):
            if points:
                place, count = _place_among_equals(curves, number)
                marker = {'marker': 'o', 'markersize': 3 + 3 * (count - 1 - place)} if title in marked else {}
                dashes = _dashes(place, count)
                axes.plot(*zip(*points, strict=True), color=color_of(number), linestyle=dashes, **marker)
        axes.set_title(title)
        axes.set_xlabel('step')
        axes.set_ylabel(units.get(title, ''))
        clear_frame(axes)
    handles = [all_axes[0].plot([], [], color=color_of(number))[0] for number in range(len(runs))]
    figure.legend(handles, plain(runs), loc='outside upper center', ncols=min(len(runs), 3))
    return figure


def _place_among_equals(curves: Sequence[Points], number: int) -> tuple[int, int]:
    """How many earlier curves cover this one, having its values wherever both have any; and how many equal it in all.

    >>> same, longer, other = [(1, 5.0), (2, 4.0)], [(1, 5.0), (2, 4.0), (3, 3.0)], [(1, 5.0), (2, 4.5)]
    >>> [_place_among_equals([same, other, longer], number) for number in range(3)]
    [(0, 2), (0, 1), (1, 2)]
    """
    own, equal = dict(curves[number]), []
    for curve in curves:
        common = [(value, own[step]) for step, value in curve if step in own]
        equal.append(bool(common) and all(theirs == ours for theirs, ours in common))
    return sum(equal[:number]), sum(equal)


def _dashes(place: int, count: int) -> Any:
    """A line style under which equal curves, drawn one over the other, each show an equal share of the line."""
    period = 4.0 * count
    return '-' if place == 0 else (0, (period * (count - place) / count, period * place / count))
