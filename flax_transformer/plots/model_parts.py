"""Pictures of a model's parts: position vectors, which numbers norms average."""

import numpy as np

from flax_transformer.plots.look import COLORS, SIGNED, Figure, draw_matrix, make_figure, make_panels

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
