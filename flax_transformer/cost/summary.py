"""Summaries for people: a model's parameters by part, a learning-rate schedule as a picture."""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from flax_transformer.common.trees import named_leaves

_EIGHTHS = ' ▁▂▃▄▅▆▇█'


class Part(NamedTuple):
    name: str  # such as encoder/layers_*/feed_forward
    count: int  # parts of this kind
    shapes: tuple[tuple[int, ...], ...]  # one part's
    size: int  # parameters in all


def parameter_table(params: Any) -> list[Part]:
    parts: dict[str, dict[str, list[Any]]] = {}
    for path, leaf in named_leaves(params):
        *folders, _ = path.split('/')
        # What a projection or norm is part of says more than its own name.
        part = '/'.join(folders[: 3 if 'layers_' in path else 1] or [path])
        parts.setdefault(re.sub(r'layers_\d+', 'layers_*', part), {}).setdefault(part, []).append(leaf)
    return [
        Part(
            name,
            len(alike),
            tuple(leaf.shape for leaf in next(iter(alike.values()))),
            sum(math.prod(leaf.shape) for leaves in alike.values() for leaf in leaves),
        )
        for name, alike in parts.items()
    ]


def plot(values: Sequence[float], *, height: int = 6) -> list[str]:
    """Lines of block characters: a column for each value, scaled from 0 to the largest.

    >>> plot([0, 1, 2, 3, 4], height=2)
    ['   ▄█', ' ▄███']
    """
    top = max(*values, 1e-300)
    eighths = [round(8 * height * value / top) for value in values]
    rows = [[min(max(size - 8 * row, 0), 8) for size in eighths] for row in reversed(range(height))]
    return [''.join(_EIGHTHS[filled] for filled in row) for row in rows]


def schedule_plot(rate: Callable[[Any], Any], steps: int, *, width: int = 60, height: int = 6) -> list[str]:
    """The learning rate, a function of an array of steps, as lines of text, with its maximum."""
    columns = np.linspace(1, max(steps, 1), width).round().astype(int)
    values = np.asarray(rate(columns))
    # The maximum may fall between two columns.
    best = int(values.argmax())
    near = np.arange(columns[max(best - 1, 0)], columns[min(best + 1, width - 1)] + 1)
    nearest = np.asarray(rate(near))
    axis = f'1{f"{steps:,}":>{width - 1}}'
    return [
        *plot(values, height=height),
        axis,
        f'at most {nearest.max():.3g}, at step {near[nearest.argmax()]:,}',
    ]
