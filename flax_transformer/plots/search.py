"""The tree that a search goes through."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from flax_transformer.plots.look import COLORS, make_panels
from flax_transformer.plots.tokens import readable, use_fonts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_beam_tree(
    tokens: Sequence[str],
    parents: Sequence[int],
    log_probs: Sequence[float],
    *,
    best: int | None = None,
    kept: Sequence[bool] | None = None,
    title: str = '',
) -> 'Figure':
    """Hypotheses as paths from left to right, a token a node; better ones are higher, the best path is coloured.

    Args:
      tokens: of the N nodes, each after its parent.
      parents: index of each node's parent; -1: where all begin.
      log_probs: of the hypothesis that ends in each node, in nats; written below it.
      best: the last node of the path to colour; None: none.
      kept: [N], False: the search dropped this node, which is drawn grey; None: all are kept.
    """
    parents, log_probs = np.asarray(parents, int), np.asarray(log_probs, float)
    if not 0 < len(tokens) == len(parents) == len(log_probs) or any(parents >= np.arange(len(parents))):
        raise ValueError(
            f'{len(tokens)} tokens, {len(parents)} parents, {len(log_probs)} log-probabilities: expected as many of '
            'each, at least one, and every node after its parent'
        )
    depth, height = _depths(parents), _heights(parents, log_probs)
    path = _path(parents, best)
    half = _half_widths(tokens, depth)
    centers = 0.6 + np.cumsum(2 * half + 0.45) - half
    figure, (axes,) = make_panels(centers[-1] + half[-1] + 0.3, 1.2 + 0.55 * (height.max() + 1))
    is_kept = np.ones(len(tokens), bool) if kept is None else np.asarray(kept, bool)
    for node, parent in enumerate(parents):
        at = depth[node]
        start = (0.2, height[depth == 0].mean()) if parent < 0 else (centers[at - 1] + half[at - 1], height[parent])
        is_best = node in path
        axes.plot(
            *zip(start, (centers[at] - half[at], height[node]), strict=True),
            color=COLORS[1] if is_best else '0.45' if is_kept[node] else '0.85',
            linewidth=2.2 if is_best else 1.0,
            zorder=2 if is_best else 1,
        )
    _write_nodes(axes, tokens, log_probs, np.stack([centers[depth], height], axis=1), is_kept)
    axes.set_xlim(0.0, centers[-1] + half[-1])
    axes.set_ylim(height.max() + 0.7, -0.6)
    axes.set_xticks(centers, range(1, len(centers) + 1))
    axes.set_yticks([])
    axes.set_xlabel('step (below each token: log-probability so far, nats)')
    axes.spines[['top', 'right', 'left']].set_visible(False)
    axes.set_title(title, fontsize=11)
    return figure


def merge_hypotheses(
    tokens: Sequence[Sequence[str]], token_log_probs: Sequence[Sequence[float]]
) -> tuple[list[str], list[int], list[float], list[int]]:
    """Tokens, parents and log-probabilities of the tree that hypotheses share, as `plot_beam_tree` takes them; and the
    last node of each hypothesis.

    >>> merge_hypotheses(['ab', 'ac'], [[-0.5, -0.25], [-0.5, -1.0]])
    (['a', 'b', 'c'], [-1, 0, 0], [-0.5, -0.75, -1.5], [1, 2])
    """
    nodes: dict[tuple[str, ...], int] = {}
    labels, parents, log_probs, ends = [], [], [], []
    for hypothesis, gains in zip(tokens, token_log_probs, strict=True):
        parent, total = -1, 0.0
        for length, gain in enumerate(gains, start=1):
            start, total = tuple(hypothesis[:length]), total + float(gain)
            if start not in nodes:
                nodes[start] = len(labels)
                labels.append(hypothesis[length - 1])
                parents.append(parent)
                log_probs.append(total)
            parent = nodes[start]
        ends.append(parent)
    return labels, parents, log_probs, ends


def _write_nodes(
    axes: 'Axes', tokens: Sequence[str], log_probs: np.ndarray, places: np.ndarray, is_kept: np.ndarray
) -> None:
    texts = []
    for token, log_prob, (x, y), is_live in zip(tokens, log_probs, places, is_kept, strict=True):
        color = 'black' if is_live else '0.55'
        texts.append(axes.text(x, y, readable(token), ha='center', va='center', color=color, fontsize=10, zorder=3))
        axes.text(x, y + 0.2, f'{log_prob:.2f}', ha='center', va='top', color=color, fontsize=7.5, zorder=3)
    use_fonts(texts)


def _depths(parents: np.ndarray) -> np.ndarray:
    depth = np.zeros(len(parents), int)
    for node, parent in enumerate(parents):
        depth[node] = 0 if parent < 0 else depth[parent] + 1
    return depth


def _half_widths(tokens: Sequence[str], depth: np.ndarray) -> np.ndarray:
    """Half of the room, in inches, that the longest token of each depth takes."""
    longest = [
        max(len(token) for token, of in zip(tokens, depth, strict=True) if of == at) for at in range(max(depth) + 1)
    ]
    return np.maximum(0.22, 0.06 + 0.045 * np.array(longest))


def _heights(parents: np.ndarray, log_probs: np.ndarray) -> np.ndarray:
    """A row for each leaf, the better of two siblings first; a node is level with its best child."""
    children = [[] for _ in range(len(parents) + 1)]  # the last: of the root
    for node, parent in enumerate(parents):
        children[parent].append(node)
    best = log_probs.copy()  # of a node and all below it: the deepest path decides, not the start that it shares
    for node in range(len(parents) - 1, -1, -1):
        below = [best[child] for child in children[node]]
        best[node] = max(below, default=best[node])
    height, row, waiting = np.zeros(len(parents)), 0, [*sorted(children[-1], key=best.__getitem__)]
    while waiting:
        node = waiting.pop()
        height[node] = row
        if children[node]:
            waiting += sorted(children[node], key=best.__getitem__)
        else:
            row += 1
    return height


def _path(parents: np.ndarray, last: int | None) -> set[int]:
    found, node = set(), -1 if last is None else last
    while node >= 0:
        found.add(node)
        node = parents[node]
    return found
