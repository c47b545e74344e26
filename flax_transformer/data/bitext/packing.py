"""Sentences side by side in rows of so many slots."""

from typing import NamedTuple

import numpy as np

_ROW_BITS = 24  # a position is block * 2^24 + row: one integer


class Place(NamedTuple):
    """A place in the endless stream of rows. Blocks count on from epoch to epoch."""

    block: int
    row: int

    @classmethod
    def of(cls, position: int) -> 'Place':
        return cls(position >> _ROW_BITS, position & ((1 << _ROW_BITS) - 1))

    @property
    def position(self) -> int:
        return (self.block << _ROW_BITS) | self.row


def pack(
    source_lengths: np.ndarray, target_lengths: np.ndarray, source_slots: int, target_slots: int
) -> list[list[int]]:
    """Rows of item indices: longest first, each into the fullest row that still holds it (best fit decreasing)."""
    # The side that fills its row more decides which items are the long ones.
    size = np.maximum(source_lengths / source_slots, target_lengths / target_slots)
    rows: list[list[int]] = []
    source_left: list[int] = []
    by_target_left: list[list[int]] = [[] for _ in range(target_slots + 1)]
    sources, targets = source_lengths.tolist(), target_lengths.tolist()
    for item in np.argsort(-size, kind='stable').tolist():
        need_source, need_target = sources[item], targets[item]
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
        rows[row].append(item)
        source_left[row] -= need_source
        by_target_left[left - need_target].append(row)
    return rows
