"""The order of the training sentences: endless, shuffled, a pure function of (seed, epoch, position).

Nothing of the order is stored, so a run resumes at any block, any process computes any block, and a corpus of a billion
sentences takes no memory. An epoch of a small corpus is shuffled whole by NumPy. That of a large one is the
permutation of Grain's `index_shuffle` (google/grain, grain/_src/python/experimental/index_shuffle), here for arrays:

1. A block cipher maps the numbers below 2^(2 * bits) one to one onto each other; its key comes from seed and epoch.
   It is Simon (Beaulieu et al. 2013, "The Simon and Speck Families of Lightweight Block Ciphers") with four rounds,
   which is a Feistel network: a round changes one half of a number by a function of the other half, so the same
   function undoes it, and two positions never get the same sentence whatever that function is.
2. Cycle walking (Black and Rogaway 2002, "Ciphers with Arbitrary Finite Domains") makes it a permutation of the numbers
   below `size`: a result of `size` or more is encrypted again until it is below. Starting below `size`, the walk
   comes back below it at the latest where it began.

Anything changed in `shuffled` or below it changes the order of every run that resumes, so tests hold it to Grain's.
"""

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
    fraction of each stream, so the fractions hold in every stretch of training.
    """

    def __init__(self, sizes: Sequence[int], shares: Sequence[Fraction], *, block_size: int, seed: int) -> None:
        """Sizes count the sentences of each corpus; shares sum to 1."""
        assert sum(shares) == 1
        self._sizes = tuple(sizes)
        self._shares = tuple(shares)
        self._block_size = min(block_size, sum(sizes))  # no sentence comes twice in a block of a tiny corpus
        seeds = np.random.SeedSequence([seed, len(sizes)]).generate_state(len(sizes))
        self._seeds = [int(state) >> 1 for state in seeds]

    def sentences_before(self, block: int) -> int:
        return sum(self._taken(block, share) for share in self._shares)

    def block(self, number: int) -> Drawn:
        """The sentences of a block: about block_size, exactly that on average."""
        parts = []
        for corpus, (size, share) in enumerate(zip(self._sizes, self._shares, strict=True)):
            positions = np.arange(self._taken(number, share), self._taken(number + 1, share))
            corpora = np.full(len(positions), corpus)
            parts.append(Drawn(corpora, self._indices(corpus, positions), positions // size))
        return Drawn(*map(np.concatenate, zip(*parts, strict=True)))

    def _taken(self, blocks: int, share: Fraction) -> int:
        """The number of sentences that a corpus with this share has in the first `blocks`."""
        return blocks * self._block_size * share.numerator // share.denominator

    def _indices(self, corpus: int, positions: np.ndarray) -> np.ndarray:
        size = self._sizes[corpus]
        seed = self._seeds[corpus]
        if size > _SMALL or not len(positions):
            return shuffled(positions, size, seed)
        # The cipher is slow for tiny corpora: most of the 2^16 numbers of the smallest one are outside the range.
        epochs = range(positions[0] // size, positions[-1] // size + 1)
        return np.concatenate([_permutation(size, seed, epoch) for epoch in epochs])[positions - epochs[0] * size]


@lru_cache(4)  # many blocks of an epoch use it
def _permutation(size: int, seed: int, epoch: int) -> np.ndarray:
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, epoch]))).permutation(size)


def shares(sizes: Sequence[int], weights: Sequence[float | None], temperature: float) -> list[Fraction]:
    """Each corpus's share of training: by weight, else by size ^ (1 / temperature)."""
    if None in weights:
        raised = sizes if temperature == 1 else [size ** (1 / temperature) for size in sizes]
        exact = [Fraction(size).limit_denominator(10**6) for size in raised]  # few digits: every machine rounds alike
    else:
        exact = [Fraction(repr(weight)) for weight in weights]  # 0.1 is a tenth
    return [weight / sum(exact) for weight in exact]


_LEAST_BITS = 8  # each half of the cipher's numbers has so many


def shuffled(positions: np.ndarray, size: int, seed: int) -> np.ndarray:
    """The numbers below `size` at these positions [n] of an endless stream that is reshuffled every `size` positions.

    >>> shuffled(np.arange(39_998, 40_003), 40_000, seed=0)
    array([24129, 16113, 22050,  9978, 33879])
    """
    numbers = np.empty(len(positions), np.int64)
    first = int(np.random.SeedSequence([seed, 1]).generate_state(1, np.uint32)[0])  # Grain's own derivation
    epochs = positions // size
    for epoch in np.unique(epochs).tolist():
        here = epochs == epoch
        numbers[here] = _permuted(positions[here] % size, size, (first + epoch) % 2**32)
    return numbers


def _permuted(numbers: np.ndarray, size: int, seed: int) -> np.ndarray:
    """The positions [n] of numbers below `size` in a permutation of them, by cycle walking.

    Of three numbers below 40,000, encrypted as numbers of 16 bits, the first leaves the range and is encrypted again:

    >>> once = _encrypted(np.arange(3, dtype=np.uint64), 8, _round_keys(2))
    >>> once.tolist(), _encrypted(once, 8, _round_keys(2)).tolist()
    ([54538, 39603, 21939], [25577, 35739, 35170])
    >>> _permuted(np.arange(3), 40_000, seed=2).tolist()
    [25577, 39603, 21939]
    """
    bits = max(((size - 1).bit_length() + 1) // 2, _LEAST_BITS)
    keys = _round_keys(seed)
    out = numbers.astype(np.uint64)
    outside = np.arange(len(out))  # what has not come back below size; at first, everything
    while len(outside):
        out[outside] = _encrypted(out[outside], bits, keys)
        outside = outside[out[outside] >= size]
    return out.astype(np.int64)


def _encrypted(numbers: np.ndarray, bits: int, keys: list[int]) -> np.ndarray:
    """Four rounds of Simon on numbers [n] of 2 * bits; a round needs one key, of which its lower `bits` count."""
    half = np.uint64(bits)
    mask = np.uint64((1 << bits) - 1)
    left = numbers >> half
    right = numbers & mask

    def rotated(x: np.ndarray, by: int) -> np.ndarray:
        return ((x << np.uint64(by)) | (x >> np.uint64(bits - by))) & mask

    def mixed(x: np.ndarray) -> np.ndarray:
        """Simon's round function; rotations by 1, 8 and 2 are the published ones."""
        return (rotated(x, 1) & rotated(x, 8)) ^ rotated(x, 2)

    first, second, third, fourth = (np.uint64(key) & mask for key in keys)
    left = left ^ mixed(right) ^ first
    right = right ^ mixed(left) ^ second
    left = left ^ mixed(right) ^ third
    right = right ^ mixed(left) ^ fourth
    return (left << half) | right


def _round_keys(seed: int) -> list[int]:
    """Four words from one, as `std::seed_seq` of C++ makes them (ISO C++, rand.util.seedseq), with its constants.

    It walks twice over the words, which are 32 bits wide: adding at first, then taking away.
    """
    last = 2**32 - 1
    words = [0x8B8B8B8B] * 4
    for k in range(8):
        before, here, after, next_but_one = ((k + i) % 4 for i in (-1, 0, 1, 2))
        if k < 4:
            mix = words[here] ^ words[after] ^ words[before]
            first = 1664525 * (mix ^ mix >> 27) & last
            added = 1 if k == 0 else here  # the length of the seed, then the place of each word
            if k == 1:
                added += seed
            second = first + added & last
            words[after] = words[after] + first & last
            words[next_but_one] = words[next_but_one] + second & last
        else:
            mix = words[here] + words[after] + words[before] & last
            first = 1566083941 * (mix ^ mix >> 27) & last
            second = first - here & last
            words[after] ^= first
            words[next_but_one] ^= second
        words[here] = second
    return words
