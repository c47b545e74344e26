"""The Huffman tree of a vocabulary (Huffman 1952): frequent words have short paths from the root."""

from typing import NamedTuple

import numpy as np

NO_NODE = -1


class Paths(NamedTuple):
    """Each word's way from the root, padded to the longest, P. V words have V - 1 inner nodes; the root is the last.

    Counts 5, 2, 1 of the words a, b, c: `a` hangs from the root, node 1, and `b` and `c` from node 0 below it.

        nodes  1 0    signs  0 -1
               1 0           1  1
               1 0           1  0
    """

    nodes: np.ndarray  # [V, P] int32, the inner nodes; 0 after the end
    signs: np.ndarray  # [V, P] int8, 1 or 0 by the branch that is taken there; NO_NODE after the end


def paths_of(counts: np.ndarray) -> Paths:
    """The paths of words whose counts [V], V at least 2, fall."""
    size = len(counts)
    weights = np.concatenate([counts[::-1].astype(np.int64), np.zeros(size - 1, np.int64)])
    parent, branch = np.zeros(2 * size - 1, np.int64), np.zeros(2 * size - 1, np.int8)
    weight, leaf, node = weights.tolist(), 0, size  # of both kinds, the lightest comes first
    for made in range(size, 2 * size - 1):
        for side in (1, 0):
            if leaf < size and (node >= made or weight[leaf] <= weight[node]):
                lightest, leaf = leaf, leaf + 1
            else:
                lightest, node = node, node + 1
            weight[made] += weight[lightest]
            parent[lightest], branch[lightest] = made, side
    here, nodes, signs = np.arange(size)[::-1], [], []
    while (here != 2 * size - 2).any():
        is_above = here != 2 * size - 2
        signs.append(np.where(is_above, branch[here], NO_NODE))
        here = np.where(is_above, parent[here], here)
        nodes.append(np.where(is_above, here - size, 0))
    # Collected from the words up: reversed, a path begins with what is beyond the root, which moves to its end.
    nodes, signs = np.stack(nodes[::-1], axis=1), np.stack(signs[::-1], axis=1)
    order = np.argsort(signs == NO_NODE, axis=1, kind='stable')
    nodes, signs = (np.take_along_axis(x, order, axis=1) for x in (nodes, signs))
    return Paths(nodes.astype(np.int32), signs.astype(np.int8))
