"""The order of the training sentences: endless, shuffled, a pure function of the seed."""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import grain
import numpy as np

_SMALL = 1 << 16  # sentences; of a smaller corpus an epoch is shuffled whole


class Drawn(NamedTuple):
    """Sentences in their order, arrays [sentences]."""

    corpora: np.ndarray  # of each sentence, the number of its corpus
    indices: np.ndarray  # and its number there
    epochs: np.ndarray  # how often its corpus was gone through before


class Order:
    """Which sentences come when, block by block, without end.

    Each corpus is a stream of its own, in which every sentence comes once an epoch, shuffled anew each time. A block
    takes from each stream, in turn, what is its share, so that the shares hold in every stretch of training. Nothing
    is held that grows with the corpora: a place in a shuffled epoch is computed, by Grain, where it is asked for.
    """

    def __init__(self, sizes: Sequence[int], shares: Sequence[Fraction], *, block_size: int, seed: int) -> None:
        """Sizes are sentences of each corpus; shares sum to 1."""
        assert sum(shares) == 1
        self._sizes, self._shares = tuple(sizes), tuple(shares)
        self._block_size = min(block_size, sum(sizes))  # a few sentences must not meet themselves in a block
        seeds = np.random.SeedSequence([seed, len(sizes)]).generate_state(len(sizes))
        self._seeds = [int(state) >> 1 for state in seeds]
        self._streams = [
            grain.MapDataset.range(size).seed(state).shuffle().repeat()
            for size, state in zip(sizes, self._seeds, strict=True)
        ]

    def block(self, number: int) -> Drawn:
        """The sentences of a block: some block_size, exactly on the average."""
        parts = []
        for corpus, (size, share) in enumerate(zip(self._sizes, self._shares, strict=True)):
            first, last = ((number + i) * self._block_size * share.numerator // share.denominator for i in (0, 1))
            places = np.arange(first, last)
            parts.append(Drawn(np.full(len(places), corpus), self._indices(corpus, places), places // size))
        return Drawn(*map(np.concatenate, zip(*parts, strict=True)))

    def _indices(self, corpus: int, places: np.ndarray) -> np.ndarray:
        """Which sentences stand at consecutive places of a corpus' stream."""
        size, seed = self._sizes[corpus], self._seeds[corpus]
        if size > _SMALL or not len(places):
            stream = self._streams[corpus]
            return np.array([stream[int(place)] for place in places], np.int64)
        # Grain finds the places of a small corpus by trial: an epoch, however small, takes it 50 ms.
        epochs = range(places[0] // size, places[-1] // size + 1)
        shuffled = [
            np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, e]))).permutation(size) for e in epochs
        ]
        return np.concatenate(shuffled)[places - epochs[0] * size]


def shares(sizes: Sequence[int], weights: Sequence[float | None], temperature: float) -> list[Fraction]:
    """The share of each corpus in training: by its weight, else by its size ^ (1 / temperature)."""
    if None in weights:
        # Of few digits, so that every machine rounds alike.
        exact = [
            Fraction(size if temperature == 1 else size ** (1 / temperature)).limit_denominator(10**6) for size in sizes
        ]
    else:
        exact = [Fraction(repr(weight)) for weight in weights]  # 0.1 is a tenth
    return [weight / sum(exact) for weight in exact]
