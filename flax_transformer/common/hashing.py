"""Random-looking bits as a pure function of integers, for many at a time."""

import numpy as np


def hashed(*numbers: int | np.ndarray) -> np.ndarray:
    """64 bits [n] uint64 for each tuple of integers, arrays [n] or numbers common to all; each is taken modulo 2^64.

    Each number goes through the finalizer of SplitMix64 (Steele et al. 2014), together with those before it. The same
    on every machine; not for secrets.
    """
    bits = np.zeros(1, np.uint64)  # an array, whose products overflow without a warning
    for each in numbers:
        bits = (bits ^ np.asarray(each).astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ bits >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ bits >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        bits = bits ^ bits >> np.uint64(31)
    return bits


def uniform(bits: np.ndarray) -> np.ndarray:
    """Numbers in [0, 1), multiples of 2^-53, from 64 bits each."""
    return (bits >> np.uint64(11)) * 2.0**-53
