"""Blocks of words with their neighbors and drawn negatives: the endless batches of skip-gram and CBOW."""

from typing import Any, NamedTuple

import grain
import numpy as np

from flax_transformer.tasks.embeddings.config import EmbeddingsConfig
from flax_transformer.tasks.embeddings.corpus import END_OF_LINE, Corpus
from flax_transformer.tasks.embeddings.vocabulary import Vocabulary

CHUNK = 1 << 16  # consecutive ids of the corpus that are read together; the chunks are shuffled
_DRAWS = 1 << 22  # entries of the table that negatives are drawn from


class Blocks(NamedTuple):
    """Blocks of words, in a row each; a row of zeros has no neighbors and weighs nothing.

    R rows, L words of a block, C the words of a block with `window` more on either side, N negatives.
    """

    words: np.ndarray  # [R, C] int32
    left: np.ndarray  # [R, L] int8, neighbors before each word of the block
    right: np.ndarray  # [R, L] int8, neighbors after it
    negatives: np.ndarray  # [R, N] int32; N = 0 for hierarchical softmax


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
    """[size] int32: each word as often as its count^0.75 says, so that a uniform draw is one of that distribution."""
    share = np.cumsum(counts**0.75)
    return np.searchsorted(share / share[-1], (np.arange(size) + 0.5) / size).astype(np.int32)


class BlockMaker:
    """Makes the blocks of a chunk of the corpus, a pure function of the chunk and a generator's seed."""

    def __init__(
        self, vocabulary: Vocabulary, model: EmbeddingsConfig, *, block_size: int, num_negatives: int, sample: float
    ) -> None:
        self._keep = keep_probabilities(vocabulary.counts, sample)
        self._draws = draw_table(vocabulary.counts)
        self._window, self._size, self._num_negatives = model.window, block_size, num_negatives

    def __call__(self, ids: np.ndarray, generator: np.random.Generator) -> Blocks:
        """The blocks of ids, with END_OF_LINE after each line; the last block may be empty toward its end."""
        window, size = self._window, self._size
        line = np.cumsum(ids == END_OF_LINE, dtype=np.int32)
        is_kept = generator.random(len(ids), np.float32) < np.where(ids == END_OF_LINE, -1.0, self._keep[ids])
        ids, line = ids[is_kept], line[is_kept]
        # A word's neighbors must be in its line.
        first, last = np.searchsorted(line, line, 'left'), np.searchsorted(line, line, 'right') - 1
        place, reach = np.arange(len(ids)), generator.integers(1, window, len(ids), endpoint=True)
        rows = -(-len(ids) // size)
        blocks = lambda x: np.pad(x, (0, rows * size - len(x))).astype(np.int8).reshape(rows, size)
        padded = np.pad(ids, (window, rows * size - len(ids) + window))
        words = np.lib.stride_tricks.sliding_window_view(padded, size + 2 * window)[::size][:rows]
        draws = generator.integers(0, len(self._draws), (rows, self._num_negatives), np.int32)
        left, right = np.minimum(reach, place - first), np.minimum(reach, last - place)
        return Blocks(words, blocks(left), blocks(right), self._draws[draws])


class TrainingBlocks(grain.IterDataset):
    """Batches without end: every chunk of the corpus once an epoch, in an order drawn anew for each.

    What is left out, how far neighbors reach and the negatives are drawn anew, too: a pure function of the seed and the
    number of the chunk, counted on from epoch to epoch. Every process makes the whole batch and takes its own rows.
    """

    def __init__(
        self,
        corpus: Corpus,
        make: BlockMaker,
        *,
        rows: int,
        seed: int,
        name: str,
        own_rows: np.ndarray | None = None,
        chunk: int = CHUNK,
    ) -> None:
        super().__init__()
        self.name, self.fingerprint = name, corpus.digest
        self._ids, self._make, self._rows, self._seed = corpus.ids, make, rows, seed
        self._own_rows, self._chunk = own_rows, chunk
        self._epoch, self._order = -1, np.empty(0, np.int64)  # the order of the chunks in an epoch
        self.num_chunks = -(-len(self._ids) // chunk)

    def blocks(self, number: int) -> Blocks:
        """The blocks of a chunk, by its number in the endless order."""
        first = self._first_id(number)
        return self._make(self._ids[first : first + self._chunk], np.random.default_rng([self._seed, number, 0]))

    def _first_id(self, number: int) -> int:
        epoch, place = divmod(number, self.num_chunks)
        if epoch != self._epoch:
            self._order = np.random.default_rng([self._seed, epoch, 1]).permutation(self.num_chunks)
            self._epoch = epoch
        return int(self._order[place]) * self._chunk

    def batch(self, blocks: Blocks) -> Blocks:
        """This process's rows of a batch."""
        return blocks if self._own_rows is None else Blocks(*(x[self._own_rows] for x in blocks))

    def describe(self, place: Any) -> dict[str, Any]:
        """Where in the corpus the batch at a place begins."""
        return {'first_id': self._first_id(place['chunk']), 'block': place['block']}

    def epoch(self, place: Any) -> float:
        """Chunks read before a place, by the number of chunks."""
        return place['chunk'] / self.num_chunks

    def __iter__(self) -> 'BlockIterator':
        return BlockIterator(self, self._rows)


class BlockIterator(grain.DatasetIterator):
    """Reads on from a place: a chunk, and a block in it."""

    def __init__(self, data: TrainingBlocks, rows: int) -> None:
        super().__init__()
        self._data, self._rows = data, rows
        self._chunk = self._block = 0
        self._read: Blocks | None = None  # the blocks of the chunk

    def __next__(self) -> Blocks:
        parts, missing = [], self._rows
        while missing:
            if self._read is None:
                self._read = self._data.blocks(self._chunk)
            part = Blocks(*(x[self._block : self._block + missing] for x in self._read))
            parts.append(part)
            missing -= len(part.words)
            self._block += len(part.words)
            if self._block >= len(self._read.words):
                self._chunk, self._block, self._read = self._chunk + 1, 0, None
        return self._data.batch(Blocks(*map(np.concatenate, zip(*parts, strict=True))))

    def get_state(self) -> dict[str, int]:
        return {'chunk': self._chunk, 'block': self._block}

    def set_state(self, state: dict[str, int]) -> None:
        self._chunk, self._block, self._read = int(state['chunk']), int(state['block']), None
