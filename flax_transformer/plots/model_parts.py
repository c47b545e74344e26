"""A picture of a part of a model: its position vectors."""

import numpy as np

from .look import SIGNED, Figure, draw_matrix, make_panels


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
