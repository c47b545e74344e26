"""Places in a shuffled range, computed many at a time without holding the range.

The order is that of `grain.MapDataset.range(size).seed(seed).shuffle().repeat()`, which computes one place in 7 us
where this takes 0.1: the same four rounds of the block cipher Simon (Beaulieu et al. 2013), walked until they give a
number of the range (Black and Rogaway 2002). Grain takes too small a cipher for sizes of 2^k + 1, k even, and loses a
number there; we do not.
"""

import numpy as np

_LEAST_BITS = 8  # of each half of a block


def shuffled(places: np.ndarray, size: int, seed: int) -> np.ndarray:
    """The numbers below `size` at these places [n] of an endless stream that is reshuffled every `size` places.

    Slow for sizes below a few hundred: most of the 2^16 numbers of the smallest cipher are then outside the range.
    """
    numbers = np.empty(len(places), np.int64)
    first = int(np.random.SeedSequence([seed, 1]).generate_state(1, np.uint32)[0])  # as Grain derives it
    epochs = places // size
    for epoch in np.unique(epochs).tolist():
        here = epochs == epoch
        numbers[here] = _permuted(places[here] % size, size, (first + epoch) % 2**32)
    return numbers


def _permuted(numbers: np.ndarray, size: int, seed: int) -> np.ndarray:
    """The places [n] of numbers below `size` in a permutation of them."""
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
