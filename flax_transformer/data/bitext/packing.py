"""Packing: sentence pairs side by side in rows of fixed length."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class TokenPair(NamedTuple):
    """A sentence pair as ids, EOS last."""

    source: np.ndarray
    target: np.ndarray
    corpus: int = 0  # its number in the mixture
    index: int = -1  # the pair's number in the tokenized corpus


def packed(pairs: Sequence[TokenPair], source_slots: int, target_slots: int) -> list[list[TokenPair]]:
    """The pairs in rows that hold them. Raises ValueError if a sentence is longer than a row."""
    lengths = [np.array([len(pair[side]) for pair in pairs]) for side in (0, 1)]
    for side, of_side, slots in zip(('source', 'target'), lengths, (source_slots, target_slots), strict=True):
        if of_side.max(initial=0) > slots:
            raise ValueError(f'a {side} sentence has {of_side.max()} tokens; a row has {slots} slots')
    return [[pairs[i] for i in row] for row in pack(*lengths, source_slots, target_slots)]


def pack(
    source_lengths: np.ndarray, target_lengths: np.ndarray, source_slots: int, target_slots: int
) -> list[list[int]]:
    """Rows of pair indices: longest first, each into the fullest row with room for it (best fit decreasing)."""
    # A pair is as long as the side that fills more of its row.
    size = np.maximum(source_lengths / source_slots, target_lengths / target_slots)
    rows: list[list[int]] = []
    source_left: list[int] = []
    by_target_left: list[list[int]] = [[] for _ in range(target_slots + 1)]
    sources, targets = source_lengths.tolist(), target_lengths.tolist()
    for pair in np.argsort(-size, kind='stable').tolist():
        need_source, need_target = sources[pair], targets[pair]
        for left in range(need_target, target_slots + 1):
            candidates = by_target_left[left]
            row = next((r for r in reversed(candidates) if source_left[r] >= need_source), None)
            if row is not None:
                candidates.remove(row)
                break
        else:
            row, left = len(rows), target_slots
            rows.append([])
            source_left.append(source_slots)
        rows[row].append(pair)
        source_left[row] -= need_source
        by_target_left[left - need_target].append(row)
    return rows
