"""Repeated pairs, found by 64-bit hashes of their text: 20 bytes a pair, however long the lines.

Two different texts share a hash with a probability of 2^-64: among 5 million lines once in a million corpora.
"""

import hashlib
import unicodedata
import zlib
from collections.abc import Iterable

import numpy as np

NO_KEY = 0  # marks a line that is blank or unreadable, which repeats nothing


def key(line: str) -> bytes:
    """Eight bytes, the same for texts that differ only in case, spaces and Unicode form."""
    folded = line if line.isascii() else unicodedata.normalize('NFKC', line)
    words = folded.casefold().split()
    return hashlib.blake2b(' '.join(words).encode('utf-8', 'replace'), digest_size=8).digest() if words else bytes(8)


def keys_of(lines: Iterable[str]) -> np.ndarray:
    """[lines] uint64, NO_KEY for blank ones."""
    return np.frombuffer(b''.join(map(key, lines)), np.uint64)


def exact_keys(sources: list[bytes], targets: list[bytes]) -> np.ndarray:
    """[pairs] uint32: checksums that tell apart texts with the same `key`."""
    return np.array(
        [zlib.crc32(target, zlib.crc32(source)) for source, target in zip(sources, targets, strict=True)], np.uint32
    )


def _mixed(sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    return (sources * np.uint64(0x9E3779B97F4A7C15)) ^ (targets + (targets >> np.uint64(29)))


def _firsts(values: np.ndarray) -> np.ndarray:
    """[values] bool: whether a value occurs for the first time."""
    is_first = np.zeros(len(values), bool)
    is_first[np.unique(values, return_index=True)[1]] = True
    return is_first


def repeated_pairs(sources: np.ndarray, targets: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The indices of pairs that repeat an earlier pair exactly."""
    repeated = ~_firsts(_mixed(sources, targets) + exact * np.uint64(0xD6E8FEB86659FD93))
    return np.flatnonzero(repeated & (sources != NO_KEY) & (targets != NO_KEY))


def contradictions(sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The indices of pairs whose source had another target before, each further translation once."""
    present = np.flatnonzero((sources != NO_KEY) & (targets != NO_KEY))
    new = present[_firsts(_mixed(sources[present], targets[present]))]
    return new[~_firsts(sources[new])]


def shared_pairs(sources: np.ndarray, targets: np.ndarray, others: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The indices of pairs that are also among other pairs, both sides."""
    found = np.isin(_mixed(sources, targets), _mixed(*others))
    return np.flatnonzero(found & (sources != NO_KEY) & (targets != NO_KEY))
