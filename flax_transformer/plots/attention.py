"""Attention as pictures: one map, all heads, layers and heads as a grid, links between words, and masks.

Shapes: T target tokens (queries, down), S source tokens (keys, across), H heads.
"""

from collections.abc import Sequence

import numpy as np

from .look import COLORS, Axes, Figure, draw_matrix, make_figure, make_panels, readable, use_fonts


def plot_map(
    weights: np.ndarray,
    source: Sequence[str],
    target: Sequence[str],
    *,
    title: str = '',
    axis_names: tuple[str, str] = ('source', 'translation'),
    value_name: str = 'weight',
) -> Figure:
    """Attention weights [T, S] of target over source tokens, or other values from 0 up."""
    weights = _checked(weights, 2, source, target)
    widest = 0.08 * max(map(len, target), default=0)
    figure = make_figure(max(4.2, 2.1 + widest + 0.36 * len(source)), max(2.5, 1.9 + 0.34 * len(target)))
    axes = figure.add_subplot()
    image = draw_matrix(axes, weights, largest=max(float(weights.max()), 1e-9))
    _label_axes(axes, source, target)
    axes.set(xlabel=axis_names[0], ylabel=axis_names[1])
    axes.set_title(title, fontsize=11)
    figure.colorbar(image, label=value_name, shrink=0.8)
    return figure


def plot_heads(weights: np.ndarray, source: Sequence[str], target: Sequence[str], *, title: str = '') -> Figure:
    """A map for each head of weights [H, T, S], on one scale."""
    weights = _checked(weights, 3, source, target)
    columns = min(4 if len(source) <= 12 else 2, len(weights))
    rows = -(-len(weights) // columns)
    titles = [f'head {number}' for number in range(1, len(weights) + 1)]
    return _grid(weights, (rows, columns), source, target, titles=titles, title=title)


def plot_layers(weights: np.ndarray, source: Sequence[str], target: Sequence[str], *, title: str = '') -> Figure:
    """A map for each layer (down) and head (across) of weights [layers, H, T, S], on one scale."""
    weights = _checked(weights, 4, source, target)
    layers, heads = weights.shape[:2]
    titles = [f'layer {layer}, head {head}' for layer in range(1, layers + 1) for head in range(1, heads + 1)]
    flat = weights.reshape(-1, *weights.shape[2:])
    return _grid(flat, (layers, heads), source, target, titles=titles, title=title)


def plot_alignment(links: Sequence[tuple[int, int]], source: Sequence[str], target: Sequence[str]) -> Figure:
    """Links (source word, target word), counted from 0, as `Translation.alignment` has them."""
    # No words are one empty row or column.
    source = list(source) or ['']
    target = list(target) or ['']
    figure, (axes,) = make_panels(max(4.0, 1.6 + 0.5 * len(source)), max(2.3, 1.6 + 0.4 * len(target)))
    draw_matrix(axes, np.zeros((len(target), len(source))), largest=1.0)
    _label_axes(axes, source, target)
    _draw_lattice(axes, len(source), len(target))
    if links:
        axes.scatter(*zip(*links, strict=True), s=70, color=COLORS[1], zorder=3)
    axes.set(xlabel='source', ylabel='translation')
    return figure


def plot_masks(masks: dict[str, np.ndarray], tokens: dict[str, tuple[Sequence[str], Sequence[str]]]) -> Figure:
    """Masks [T, S] by name, as panels: blue squares may be attended to; `tokens` are (keys, queries) by name."""
    width = sum(max(0.9 + 0.36 * mask.shape[1], 0.1 * len(name)) for name, mask in masks.items())
    height = 1.5 + 0.36 * max(len(mask) for mask in masks.values())
    figure, panels = make_panels(max(width, 3.0), max(height, 2.4), columns=len(masks))
    for axes, (name, mask) in zip(panels, masks.items(), strict=True):
        draw_matrix(axes, np.asarray(mask, float), largest=1.4)
        keys, queries = tokens[name]
        _label_axes(axes, keys, queries)
        _draw_lattice(axes, len(keys), len(queries))
        axes.set_title(name, fontsize=11)
        axes.set_xlabel('key')
    panels[0].set_ylabel('query')
    return figure


def _grid(
    weights: np.ndarray,
    shape: tuple[int, int],
    source: Sequence[str],
    target: Sequence[str],
    *,
    titles: Sequence[str],
    title: str,
) -> Figure:
    """Maps [N, T, S]; tokens at the left and the lower edge only."""
    rows, columns = shape
    longest = (0.085 * max(map(len, tokens), default=0) for tokens in (target, source))
    left, below = (min(length, 1.2) for length in longest)
    width = 1.0 + left + columns * max(1.3, 0.2 * len(source))
    height = 0.3 + below + rows * max(1.0, 0.25 + 0.17 * len(target))
    figure, panels = make_panels(width, height, rows, columns)
    largest = max(float(weights.max()), 1e-9)
    for number, axes in enumerate(panels):
        if number >= len(weights):
            axes.set_visible(False)
            continue
        image = draw_matrix(axes, weights[number], largest=largest)
        is_lowest = number + columns >= len(weights)
        _label_axes(axes, source if is_lowest else (), target if number % columns == 0 else (), size=8)
        axes.set_title(titles[number], fontsize=9)
    figure.colorbar(image, ax=panels[: len(weights)], label='weight', shrink=min(1.0, 2.5 / height), aspect=20)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def _label_axes(axes: Axes, source: Sequence[str], target: Sequence[str], size: float = 10) -> None:
    across, down = ([readable(token) for token in tokens] for tokens in (source, target))
    axes.set_xticks(range(len(source)), across, rotation=60, ha='right', rotation_mode='anchor', fontsize=size)
    axes.set_yticks(range(len(target)), down, fontsize=size)
    use_fonts([*axes.get_xticklabels(), *axes.get_yticklabels()])


def _draw_lattice(axes: Axes, columns: int, rows: int) -> None:
    """White lines between squares on blue, light ones on white."""
    axes.set_xticks(np.arange(1, columns) - 0.5, minor=True)
    axes.set_yticks(np.arange(1, rows) - 0.5, minor=True)
    axes.grid(which='minor', color='0.85', linewidth=1)
    axes.tick_params(which='minor', length=0)


def _checked(weights: np.ndarray, rank: int, source: Sequence[str], target: Sequence[str]) -> np.ndarray:
    """Raises ValueError unless the weights are of these tokens."""
    weights = np.asarray(weights, np.float32)
    if weights.ndim != rank or weights.shape[-2:] != (len(target), len(source)):
        names = ('layers, ' if rank == 4 else '') + ('heads, ' if rank > 2 else '')
        raise ValueError(
            f'weights {weights.shape}: expected [{names}{len(target)}, {len(source)}], target and source tokens'
        )
    return weights
