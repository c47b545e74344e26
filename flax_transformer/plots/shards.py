"""Which part of an array each device holds."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from flax_transformer.plots.look import make_panels, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Placement(NamedTuple):
    """A matrix, and the rows and columns that each device has of it."""

    shape: tuple[int, int]
    parts: Mapping[int, tuple[slice, slice]]  # by the device's number; as `Sharding.devices_indices_map` has them


def plot_shards(placements: Mapping[str, Mapping[str, Placement]], *, title: str = '') -> 'Figure':
    """Matrices as rectangles, cut as they are over the devices, whose numbers are written into their parts.

    Args:
      placements: a row of panels for each name, such as a mesh's, and in it a panel for each matrix.
    """
    columns = max(map(len, placements.values()))
    figure, panels = make_panels(1.3 + 2.6 * columns, 0.6 + 1.9 * len(placements), len(placements), columns)
    for row, (name, matrices) in enumerate(placements.items()):
        for column in range(columns):
            axes = panels[row * columns + column]
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set_visible(False)
            if column == 0:
                axes.set_ylabel(plain([name])[0], fontsize=11)
        for axes, (matrix, placement) in zip(panels[row * columns :], matrices.items(), strict=False):
            _draw(axes, placement)
            axes.set_title('{}\n{} × {}'.format(plain([matrix])[0], *placement.shape), fontsize=9)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def _draw(axes: 'Axes', placement: Placement) -> None:
    import matplotlib
    from matplotlib.patches import Rectangle

    holders: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for device, cut in sorted(placement.parts.items()):
        ends = tuple(each.indices(size)[:2] for each, size in zip(cut, placement.shape, strict=True))
        holders.setdefault(ends, []).append(device)
    height, width = placement.shape
    for number, (((top, bottom), (left, right)), devices) in enumerate(holders.items()):
        corner, size = (left / width, top / height), ((right - left) / width, (bottom - top) / height)
        is_whole = len(holders) == 1
        color = '0.85' if is_whole else matplotlib.colormaps['viridis'](0.2 + 0.8 * number / (len(holders) - 1), 0.45)
        axes.add_patch(Rectangle(corner, *size, facecolor=color, edgecolor='0.2'))
        text = f'all {len(devices)}' if is_whole and len(devices) > 1 else ' '.join(map(str, devices))
        axes.text(corner[0] + size[0] / 2, corner[1] + size[1] / 2, text, ha='center', va='center', fontsize=9)
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(1.03, -0.03)
