"""The tree that a search goes through."""

import textwrap
from collections.abc import Sequence

import numpy as np

from .look import COLORS, Axes, Figure, make_panels, readable, use_fonts

_ROW = 0.5  # inches
_GAP = 0.15  # inches
_LETTER = 0.08  # inches of a letter in the title


def plot_beam_tree(
    tokens: Sequence[str],
    parents: Sequence[int],
    log_probs: Sequence[float],
    *,
    best: int | None = None,
    kept: Sequence[bool] | None = None,
    title: str = '',
) -> Figure:
    """Hypotheses as paths from top to bottom, a token a node.

    Args:
      tokens: of N nodes, each after its parent.
      parents: index of each node's parent; -1: the root.
      log_probs: of the hypothesis that ends in each node, in nats.
      best: the last node of the path that is colored.
      kept: [N], False: a node that the search dropped, drawn gray.
    """
    parents = np.asarray(parents, int)
    log_probs = np.asarray(log_probs, float)
    if not 0 < len(tokens) == len(parents) == len(log_probs) or any(parents >= np.arange(len(parents))):
        raise ValueError(
            f'{len(tokens)} tokens, {len(parents)} parents, {len(log_probs)} log-probabilities: expected as many of '
            'each, and every node after its parent'
        )

    depth = np.zeros(len(parents), int)
    for node, parent in enumerate(parents):
        depth[node] = 0 if parent < 0 else depth[parent] + 1
    half = np.array([max(0.24, 0.06 + 0.05 * len(token)) for token in tokens])  # half a node's width, in inches
    points = np.stack([_columns(parents, log_probs, depth, half), depth], axis=1)
    is_kept = np.ones(len(tokens), bool) if kept is None else np.asarray(kept, bool)

    right = max((points[:, 0] + half).max(), 6.0)  # room for the title
    last = depth.max()
    figure, (axes,) = make_panels(right + 0.8, 0.9 + _ROW * (last + 1.2))
    path = _path(parents, best)
    for node, parent in enumerate(parents):
        is_best = node in path
        x, y = points[node]
        above = (0.0, -0.85) if parent < 0 else points[parent] + (0.0, 0.4)
        if is_best:
            style = {'color': COLORS[1], 'linewidth': 2.2, 'zorder': 2}
        else:
            style = {'color': '0.45' if is_kept[node] else '0.8', 'linewidth': 1.0, 'zorder': 1}
        axes.plot(*zip(above, (x, y - 0.25), strict=True), **style)
    _write_nodes(axes, tokens, log_probs, points, is_kept)

    axes.set(xlim=(-half[depth == 0].max() - 0.1, right), ylim=(last + 0.55, -0.9), xticks=[])
    axes.set_yticks(range(last + 1), range(1, last + 2))
    axes.set_ylabel('step')
    axes.set_xlabel('below each token: log-probability so far (nats)', loc='left')
    axes.spines[['top', 'right', 'bottom']].set_visible(False)
    lines = [textwrap.shorten(line, int(right / _LETTER), placeholder=' …') for line in title.splitlines()]
    axes.set_title('\n'.join(lines), loc='left', fontsize=10)
    return figure


def merge_hypotheses(
    tokens: Sequence[Sequence[str]], token_log_probs: Sequence[Sequence[float]]
) -> tuple[list[str], list[int], list[float], list[int]]:
    """The tree of hypotheses for `plot_beam_tree`, and the last node of each.

    >>> merge_hypotheses(['ab', 'ac'], [[-0.5, -0.25], [-0.5, -1.0]])
    (['a', 'b', 'c'], [-1, 0, 0], [-0.5, -0.75, -1.5], [1, 2])
    """
    nodes: dict[tuple[str, ...], int] = {}
    labels = []
    parents = []
    log_probs = []
    ends = []
    for hypothesis, gains in zip(tokens, token_log_probs, strict=True):
        parent = -1
        total = 0.0
        for length, gain in enumerate(gains, start=1):
            start = tuple(hypothesis[:length])
            total = total + float(gain)
            if start not in nodes:
                nodes[start] = len(labels)
                labels.append(hypothesis[length - 1])
                parents.append(parent)
                log_probs.append(total)
            parent = nodes[start]
        ends.append(parent)
    return labels, parents, log_probs, ends


def _write_nodes(
    axes: Axes, tokens: Sequence[str], log_probs: np.ndarray, points: np.ndarray, is_kept: np.ndarray
) -> None:
    texts = []
    for token, log_prob, (x, y), is_live in zip(tokens, log_probs, points, is_kept, strict=True):
        color = 'black' if is_live else '0.55'
        texts.append(axes.text(x, y, readable(token), ha='center', va='center', color=color, fontsize=10, zorder=3))
        axes.text(x, y + 0.19, f'{log_prob:.2f}', ha='center', va='top', color=color, fontsize=7.5, zorder=3)
    use_fonts(texts)


def _columns(parents: np.ndarray, log_probs: np.ndarray, depth: np.ndarray, half: np.ndarray) -> np.ndarray:
    """Where nodes stand, in inches: below its parent the child that went farthest, the others to the right of it."""
    farthest = list(zip(depth, log_probs, strict=True))  # the last node below each, and of these the most probable
    for node in range(len(parents) - 1, -1, -1):
        if parents[node] >= 0:
            farthest[parents[node]] = max(farthest[parents[node]], farthest[node])
    columns = np.zeros(len(parents))
    rank = np.zeros(len(parents) + 1)  # the last rank: of the root
    for at in range(depth.max() + 1):
        edge = -np.inf
        row = sorted(np.flatnonzero(depth == at), key=farthest.__getitem__, reverse=True)
        for number, node in enumerate(sorted(row, key=lambda node: rank[parents[node]])):
            rank[node] = number
            wanted = columns[parents[node]] if at else 0.0
            columns[node] = max(wanted, edge + half[node])
            edge = columns[node] + half[node] + _GAP
    return columns


def _path(parents: np.ndarray, last: int | None) -> set[int]:
    path = set()
    node = -1 if last is None else last
    while node >= 0:
        path.add(node)
        node = parents[node]
    return path
