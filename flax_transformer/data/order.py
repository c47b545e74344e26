"""The order of the training sentences: endless, shuffled, a pure function of the seed."""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

_SMALL = 1 << 16  # sentences; up to this size a whole epoch is shuffled at once


class Drawn(NamedTuple):
    """Sentences in order, arrays [sentences]."""

    corpora: np.ndarray  # the number of each sentence's corpus
    indices: np.ndarray  # its number in that corpus
    epochs: np.ndarray  # how many passes over that corpus came before


class Order:
    """The endless order of sentences, by block.

    Each corpus is a stream in which every sentence comes once an epoch, reshuffled each time. A block takes its
    fraction of each stream, so the fractions hold in every stretch of training. No memory grows with the corpora:
    positions in a shuffled epoch are computed on demand.
    """

    def __init__(self, sizes: Sequence[int], shares: Sequence[Fraction], *, block_size: int, seed: int) -> None:
        """Sizes count the sentences of each corpus; shares sum to 1."""
        assert sum(shares) == 1
        self._sizes, self._shares = tuple(sizes), tuple(shares)
        self._block_size = min(block_size, sum(sizes))  # no sentence comes twice in a block of a tiny corpus
        seeds = np.random.SeedSequence([seed, len(sizes)]).generate_state(len(sizes))
        self._seeds = [int(state) >> 1 for state in seeds]

    def sentences_before(self, block: int) -> int:
        """The number of sentences in all blocks before this one."""
        return sum(block * self._block_size * share.numerator // share.denominator for share in self._shares)

    def block(self, number: int) -> Drawn:
        """The sentences of a block: about block_size, exactly that on average."""
        parts = []
        for corpus, (size, share) in enumerate(zip(self._sizes, self._shares, strict=True)):
            first, last = ((number + i) * self._block_size * share.numerator // share.denominator for i in (0, 1))
            positions = np.arange(first, last)
            parts.append(Drawn(np.full(len(positions), corpus), self._indices(corpus, positions), positions // size))
        return Drawn(*map(np.concatenate, zip(*parts, strict=True)))

    def _indices(self, corpus: int, positions: np.ndarray) -> np.ndarray:
        """The sentences at consecutive positions of a corpus's stream."""
        size, seed = self._sizes[corpus], self._seeds[corpus]
        if size > _SMALL or not len(positions):
            return shuffled(positions, size, seed)
        # The cipher is slow for tiny corpora.
        epochs = range(positions[0] // size, positions[-1] // size + 1)
        return np.concatenate([_permutation(size, seed, epoch) for epoch in epochs])[positions - epochs[0] * size]


@lru_cache(4)  # many blocks of an epoch use it
def _permutation(size: int, seed: int, epoch: int) -> np.ndarray:
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, epoch]))).permutation(size)


def shares(sizes: Sequence[int], weights: Sequence[float | None], temperature: float) -> list[Fraction]:
    """Each corpus's share of training: by weight, else by size ^ (1 / temperature)."""
    if None in weights:
        # Few digits, so that every machine rounds alike.
        exact = [
            Fraction(size if temperature == 1 else size ** (1 / temperature)).limit_denominator(10**6) for size in sizes
        ]
    else:
        exact = [Fraction(repr(weight)) for weight in weights]  # 0.1 is a tenth
    return [weight / sum(exact) for weight in exact]


_LEAST_BITS = 8  # each half of the cipher's block has at least these


def shuffled(positions: np.ndarray, size: int, seed: int) -> np.ndarray:
    """The numbers below `size` at these positions [n] of an endless stream that is reshuffled every `size` positions.

    Slow for sizes below a few hundred: most of the 2^16 numbers of the smallest cipher are then outside the range.
    """
    numbers = np.empty(len(positions), np.int64)
    first = int(np.random.SeedSequence([seed, 1]).generate_state(1, np.uint32)[0])  # Grain's own derivation
    epochs = positions // size
    for epoch in np.unique(epochs).tolist():
        here = epochs == epoch
        numbers[here] = _permuted(positions[here] % size, size, (first + epoch) % 2**32)
    return numbers


def _permuted(numbers: np.ndarray, size: int, seed: int) -> np.ndarray:
    """The positions [n] of numbers below `size` in a permutation of them."""
    bits = max(((size - 1).bit_length() + 1) // 2, _LEAST_BITS)
    mask, half = np.uint64((1 << bits) - 1), np.uint64(bits)
    keys = [np.uint64(key) & mask for key in _round_keys(seed)]

    def rotated(x: np.ndarray, by: int) -> np.ndarray:
        return ((x << np.uint64(by)) | (x >> np.uint64(bits - by))) & mask

    def mixed(x: np.ndarray) -> np.ndarray:
        return (rotated(x, 1) & rotated(x, 8)) ^ rotated(x, 2)

    out = numbers.astype(np.uint64)
    outside = np.arange(len(out))  # the cipher permutes a range of 2^(2 * bits): what leaves ours is permuted again
    while len(outside):
        left, right = out[outside] >> half, out[outside] & mask
        for even, odd in (keys[:2], keys[2:]):
            left = left ^ mixed(right) ^ even
            right = right ^ mixed(left) ^ odd
        out[outside] = (left << half) | right
        outside = outside[out[outside] >= size]
    return out.astype(np.int64)


def _round_keys(seed: int) -> list[int]:
    """Four words from one, as `std::seed_seq` of C++ makes them (ISO C++, rand.util.seedseq)."""
    last, words = 2**32 - 1, [0x8B8B8B8B] * 4
    for k in range(8):
        before, here, one, two = ((k + i) % 4 for i in (-1, 0, 1, 2))
        if k < 4:
            mix = words[here] ^ words[one] ^ words[before]
            first = 1664525 * (mix ^ mix >> 27) & last
            second = first + (1 if k == 0 else here + (seed if k == 1 else 0)) & last
            words[one], words[two], words[here] = words[one] + first & last, words[two] + second & last, second
        else:
            mix = words[here] + words[one] + words[before] & last
            first = 1566083941 * (mix ^ mix >> 27) & last
            second = first - here & last
            words[one], words[two], words[here] = words[one] ^ first, words[two] ^ second, second
    return words
