"""Blocks of words with their neighbors and drawn negatives, for skip-gram and CBOW."""

import heapq
from typing import NamedTuple

import numpy as np

from .config import EmbeddingsModelConfig
from .corpus import END_OF_LINE, Vocabulary

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
    """The paths of words with descending counts [V] in a Huffman tree."""
    size = len(counts)
    root = 2 * size - 2
    parent, branch = _huffman_tree(counts)

    # All paths climb one node at a time, from the words to the root.
    here = np.arange(size)[::-1]
    nodes: list[np.ndarray] = []
    signs: list[np.ndarray] = []
    while (here != root).any():
        is_below = here != root
        signs.append(np.where(is_below, branch[here], NO_NODE))
        here = np.where(is_below, parent[here], here)
        nodes.append(np.where(is_below, here - size, 0))

    # Read from the root down, a short path begins with its padding; a stable sort moves that to the end.
    downward_nodes = np.stack(nodes[::-1], axis=1).astype(np.int32)
    downward_signs = np.stack(signs[::-1], axis=1).astype(np.int8)
    order = np.argsort(downward_signs == NO_NODE, axis=1, kind='stable')
    return Paths(
        np.take_along_axis(downward_nodes, order, axis=1),
        np.take_along_axis(downward_signs, order, axis=1),
    )


def _huffman_tree(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The parent of each node and its branch there, 0 or 1, [2 V - 1]: the words, rarest first, then inner nodes."""
    size = len(counts)
    parent = np.zeros(2 * size - 1, np.int64)
    branch = np.zeros(2 * size - 1, np.int8)
    lightest = [(count, leaf) for leaf, count in enumerate(counts[::-1].tolist())]
    heapq.heapify(lightest)
    for made in range(size, 2 * size - 1):
        weight = 0
        for side in (1, 0):
            own, node = heapq.heappop(lightest)
            weight += own
            parent[node] = made
            branch[node] = side
        heapq.heappush(lightest, (weight, made))
    return parent, branch


CHUNK = 1 << 16  # consecutive ids of the corpus that are read together
_DRAWS = 1 << 22  # entries of the table that negatives are drawn from


class Blocks(NamedTuple):
    """Blocks of words, in a row each; a row of zeros has no neighbors and weighs nothing.

    R rows, L words of a block, C the words of a block with `window` more on either side, N negatives.
    """

    words: np.ndarray  # [R, C] int32
    left: np.ndarray  # [R, L] int8, neighbors before each word of the block
    right: np.ndarray  # [R, L] int8, neighbors after it
    negatives: np.ndarray  # [R, N] int32


class PathBlocks(NamedTuple):
    """The same, for hierarchical softmax. P inner nodes of the longest path."""

    words: np.ndarray  # [R, C] int32
    left: np.ndarray  # [R, L] int8
    right: np.ndarray  # [R, L] int8
    nodes: np.ndarray  # [R, L, P] int32
    signs: np.ndarray  # [R, L, P] int8, as in `Paths`


TextBlocks = Blocks | PathBlocks


def keep_probabilities(counts: np.ndarray, sample: float) -> np.ndarray:
    """The probability [V] float32 that an occurrence of a word stays.

    sqrt(t / f) + t / f for a word with the share f of all occurrences, as word2vec's code has it (its paper: the square
    root alone).
    """
    if sample == 0.0:
        return np.ones(len(counts), np.float32)
    ratio = sample * counts.sum() / counts
    return np.minimum(np.sqrt(ratio) + ratio, 1.0).astype(np.float32)


def draw_table(counts: np.ndarray, size: int = _DRAWS) -> np.ndarray:
    """[size] int32: each word as often as its count^0.75 says."""
    cumulative = np.cumsum(counts**0.75)
    return np.searchsorted(cumulative / cumulative[-1], (np.arange(size) + 0.5) / size).astype(np.int32)


class BlockMaker:
    def __init__(self, vocabulary: Vocabulary, model: EmbeddingsModelConfig, *, block_size: int, sample: float) -> None:
        self._keep = keep_probabilities(vocabulary.counts, sample)
        self._window = model.window
        self._size = block_size
        self._is_tree = model.output == 'hierarchical_softmax'
        if self._is_tree:
            self._paths = paths_of(vocabulary.counts)
        else:
            self._draws = draw_table(vocabulary.counts)

    def __call__(self, ids: np.ndarray, generator: np.random.Generator) -> TextBlocks:
        """The blocks of ids, with END_OF_LINE after each line; the last block may be empty toward its end."""
        window = self._window
        size = self._size
        line = np.cumsum(ids == END_OF_LINE, dtype=np.int32)
        is_kept = generator.random(len(ids), np.float32) < np.where(ids == END_OF_LINE, -1.0, self._keep[ids])
        ids = ids[is_kept]
        line = line[is_kept]

        # A word's neighbors are in its own line.
        index = np.arange(len(ids))
        before = index - np.searchsorted(line, line, 'left')
        after = np.searchsorted(line, line, 'right') - 1 - index
        reach = generator.integers(1, window, len(ids), endpoint=True)

        rows = -(-len(ids) // size)
        missing = rows * size - len(ids)
        left = np.pad(np.minimum(reach, before), (0, missing)).astype(np.int8).reshape(rows, size)
        right = np.pad(np.minimum(reach, after), (0, missing)).astype(np.int8).reshape(rows, size)
        padded = np.pad(ids, (window, missing + window))
        words = np.lib.stride_tricks.sliding_window_view(padded, size + 2 * window)[::size][:rows]

        if self._is_tree:
            own = words[:, window : window + size]
            return PathBlocks(words, left, right, self._paths.nodes[own], self._paths.signs[own])
        draws = generator.integers(0, len(self._draws), (rows, size), np.int32)
        return Blocks(words, left, right, self._draws[draws])


class TextChunks:
    """The blocks of a corpus, a chunk at a time; its ids may be on disk."""

    def __init__(self, ids: np.ndarray, make: BlockMaker, *, chunk: int = CHUNK) -> None:
        self._ids = ids
        self.make = make
        self._chunk = chunk

    def __len__(self) -> int:
        return -(-len(self._ids) // self._chunk)

    def __call__(self, chunk: int, generator: np.random.Generator) -> TextBlocks:
        first = chunk * self._chunk
        return self.make(np.asarray(self._ids[first : first + self._chunk]), generator)
