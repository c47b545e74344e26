"""Pictures of a model's parts: position vectors, which numbers norms average, which part of an array a device holds."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from flax_transformer.plots.look import COLORS, SIGNED, Axes, Figure, draw_matrix, make_figure, make_panels, plain

SIZES = (3, 4, 4)  # sentences, positions, features
# What shares the statistics of the first sentence, position and feature, and in words.
NORMS = {
    'layer': (np.s_[0, 0, :], 'features of one token'),
    'rms': (np.s_[0, 0, :], 'features of one token'),
    'group': (np.s_[0, 0, :2], 'a group of features of one token'),
    'batch': (np.s_[:, :, 0], 'one feature, over all tokens'),
    'instance': (np.s_[0, :, 0], 'one feature, over one sentence'),
}
KINDS = ('layer', 'group', 'batch', 'instance')


def plot_positions(tables: np.ndarray | dict[str, np.ndarray]) -> Figure:
    """A table [T, D], positions down and dimensions across; or several by name, one above the other."""
    named = tables if isinstance(tables, dict) else {'': tables}
    largest = max(float(np.abs(table).max()) for table in named.values())
    figure, panels = make_panels(8.0, 1.0 + 2.7 * len(named), rows=len(named))
    for axes, (name, table) in zip(panels, named.items(), strict=True):
        image = draw_matrix(axes, np.asarray(table), largest=largest, color_map=SIGNED)
        axes.set_aspect('auto')
        axes.set_ylabel('position (tokens)')
        axes.set_title(name, fontsize=11)
    panels[-1].set_xlabel('dimension')
    figure.colorbar(image, ax=panels, label='value', shrink=0.8)
    return figure


def averaged(kind: str) -> np.ndarray:
    """Which of [sentences, positions, features] share the statistics of the first sentence, position and feature.

    >>> [int(averaged(kind).sum()) for kind in KINDS]
    [4, 2, 12, 4]
    """
    found = np.zeros(SIZES, bool)
    found[NORMS[kind][0]] = True
    return found


def plot_norm_axes(kinds: tuple[str, ...] = KINDS) -> Figure:
    """A cube for each norm; colored are the numbers whose mean and variance normalize the one at the front corner."""
    rows, columns = -(-len(kinds) // 2), min(len(kinds), 2)
    figure = make_figure(4.2 * columns, 3.9 * rows)
    for number, kind in enumerate(kinds, start=1):
        axes = figure.add_subplot(rows, columns, number, projection='3d')
        cells = averaged(kind)[:, ::-1]  # position 0 on top: height is axis z
        filled = np.ones_like(cells)
        colors = np.where(cells, COLORS[0], '#f2f2f2')
        # x: features, y: sentences, z: positions
        turn = lambda cube: np.transpose(cube, (2, 0, 1))
        axes.voxels(turn(filled), facecolors=turn(colors), edgecolor='0.45', linewidth=0.6, shade=False)
        axes.view_init(elev=22, azim=-58)
        axes.set_box_aspect((SIZES[2], SIZES[0], SIZES[1]), zoom=0.95)
        for axis, name in ((axes.xaxis, 'features'), (axes.yaxis, 'sentences'), (axes.zaxis, 'positions')):
            axis.set_ticks([])
            axis.set_label_text(name)
            axis.labelpad = -12
            axis.set_pane_color('white')
            axis.line.set_color('none')
        axes.grid(visible=False)
        axes.set_title(f'{kind} norm\n{NORMS[kind][1]}', fontsize=11, y=0.98)
    return figure


class Placement(NamedTuple):
    """A matrix, and the rows and columns that each device has of it."""

    shape: tuple[int, int]
    parts: Mapping[int, tuple[slice, slice]]  # keyed by the device's number, like `Sharding.devices_indices_map`


def plot_shards(placements: Mapping[str, Mapping[str, Placement]]) -> Figure:
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
    return figure


def _draw(axes: Axes, placement: Placement) -> None:
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
