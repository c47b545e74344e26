"""Repeated lines, found by 64-bit hashes of their text: 8 bytes each, however long the lines.

Two different texts share a hash with a probability of 2^-64: among 5 million lines once in a million corpora.
"""

import hashlib
import unicodedata
from collections.abc import Iterable, Iterator

import numpy as np

NO_KEY = 0  # marks a line that is blank or unreadable, which repeats nothing


def keys_of(lines: Iterable[str]) -> np.ndarray:
    """[lines] uint64: the same for texts that differ only in case, spaces and Unicode form; NO_KEY for blank ones."""
    return hashes(map(_folded, lines))


def hashes(values: Iterable[bytes]) -> np.ndarray:
    """[values] uint64: equal for equal bytes; NO_KEY for none."""
    digests = (hashlib.blake2b(value, digest_size=8).digest() if value else bytes(8) for value in values)
    return np.frombuffer(b''.join(digests), np.uint64)


def _folded(line: str) -> bytes:
    folded = line if line.isascii() else unicodedata.normalize('NFKC', line)
    return ' '.join(folded.casefold().split()).encode('utf-8', 'replace')


def pair_keys(sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """[pairs] uint64: a key of both sides, NO_KEY where one has none."""
    mixed = (sources * np.uint64(0x9E3779B97F4A7C15)) ^ (targets + (targets >> np.uint64(29)))
    return np.where((sources != NO_KEY) & (targets != NO_KEY), mixed, NO_KEY)


def repeated(keys: np.ndarray) -> np.ndarray:
    """The rows whose key occurred before."""
    is_repeat = keys != NO_KEY
    is_repeat[np.unique(keys, return_index=True)[1]] = False
    return np.flatnonzero(is_repeat)


def contradictions(sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The rows whose source had another target before, each further target once."""
    pairs = pair_keys(sources, targets)
    new = np.setdiff1d(np.flatnonzero(pairs != NO_KEY), repeated(pairs))
    return new[repeated(sources[new])]


def shared(keys: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The rows whose key is also among the others."""
    return np.flatnonzero(np.isin(keys, others) & (keys != NO_KEY))


def overlaps(keys: dict[str, np.ndarray]) -> Iterator[tuple[str, str, np.ndarray]]:
    """Overlaps between `train`, `validation` and `test`, those there are: kind, corpus and its rows."""
    for kind, name, other in (
        ('leaked', 'validation', 'train'),
        ('leaked', 'test', 'train'),
        ('validation_is_test', 'test', 'validation'),
    ):
        if name in keys and other in keys:
            yield kind, name, shared(keys[name], keys[other])
