"""The work of the decoding benchmarks, alike for everybody: sentences, and how long translations are. NumPy alone.

Every sentence of `workload` is to yield exactly `length` ids, none of them special, so that all do the same work
whatever their weights.
"""

from dataclasses import dataclass

import numpy as np
from workload import EOS, FIRST, PAD, SIZES, Size, lengths, sentence

__all__ = ['EOS', 'FIRST', 'PAD', 'SIZES', 'Batch', 'Size', 'batches']


@dataclass(frozen=True)
class Batch:
    sources: list[np.ndarray]  # ids, EOS last
    slots: int  # that a program of static shapes pads the sources to
    length: int  # ids that every translation has

    def padded(self, slots: int | None = None) -> np.ndarray:
        """Sources [B, slots or the longest]."""
        rows = np.zeros((len(self.sources), slots or max(map(len, self.sources))), np.int32)
        for row, ids in zip(rows, self.sources, strict=True):
            row[: len(ids)] = ids
        return rows


def batches(size: Size, rows: int) -> list[Batch]:
    """Batches of `rows` sentences by length: the quantiles of its distribution."""
    rng = np.random.default_rng(2)
    draws = np.sort(lengths(size, 20_000, rng)[0])
    count = size.single if rows == 1 else rows
    sentences = [sentence(draws[int((i + 0.5) * len(draws) / count)], size.vocab_size, rng) for i in range(count)]
    bucket = lambda length: next(slots for slots in size.buckets if length <= slots)
    groups = [sentences[i : i + rows] for i in range(0, count, rows)]
    return [
        Batch(group, bucket(max(map(len, group))), bucket(int(np.ceil(np.mean([len(ids) for ids in group])))))
        for group in groups
    ]
