"""Which numbers each norm averages: cubes of sentences, positions and features."""

from typing import TYPE_CHECKING

import numpy as np

from flax_transformer.plots.look import COLORS, make_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = (3, 4, 4)  # sentences, positions, features
KINDS = ('layer', 'group', 'batch', 'instance')
OVER = {
    'layer': 'features of one token',
    'rms': 'features of one token',
    'group': 'a group of features of one token',
    'batch': 'one feature, over all tokens',
    'instance': 'one feature, over one sentence',
}


def averaged(kind: str, group_size: int = 2) -> np.ndarray:
    """Which of [sentences, positions, features] share the statistics of the first sentence, position and feature.

    >>> [int(averaged(kind).sum()) for kind in KINDS]
    [4, 2, 12, 4]
    """
    found = np.zeros(SIZES, bool)
    chosen = {
        'layer': np.s_[0, 0, :],
        'rms': np.s_[0, 0, :],
        'group': np.s_[0, 0, :group_size],
        'batch': np.s_[:, :, 0],
        'instance': np.s_[0, :, 0],
    }
    if kind not in chosen:
        raise ValueError(f'kind={kind!r}: expected one of {", ".join(chosen)}')
    found[chosen[kind]] = True
    return found


def plot_norm_axes(kinds: tuple[str, ...] = KINDS) -> 'Figure':
    """A cube for each norm; coloured are the numbers whose mean and variance normalize the one at the front corner."""
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
        axes.set_title(f'{kind} norm\n{OVER[kind]}', fontsize=11, y=0.98)
    return figure
