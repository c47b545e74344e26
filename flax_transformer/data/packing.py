"""The plan: which sentences lie together in which row, a pure function of (seed, epoch, lengths).

The sentences are shuffled anew each epoch and taken in blocks; a block is packed by itself, so that a plan of any
number of sentences is made while it is used, and its rows are shuffled again, so that a batch does not consist of
one length.
"""

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


class Plan:
    """Rows of sentence indices, block by block, epoch by epoch."""

    def __init__(
        self,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        *,
        source_slots: int,
        target_slots: int,
        block_size: int,
        seed: int,
        shuffle: bool = True,
    ) -> None:
        """Lengths are [sentences] tokens, EOS counted, none above its slots."""
        for name, lengths, slots in (
            ('source', source_lengths, source_slots),
            ('target', target_lengths, target_slots),
        ):
            if len(lengths) and lengths.max() > slots:
                raise ValueError(f'a {name} sentence has {lengths.max()} tokens; a row has {slots} slots')
        self._lengths = (source_lengths, target_lengths)
        self._slots = (source_slots, target_slots)
        self._block_size = block_size
        self._seed = seed
        self._shuffle = shuffle
        self._order: tuple[int, np.ndarray] | None = None  # of the epoch that was asked for last

    @property
    def num_sentences(self) -> int:
        return len(self._lengths[0])

    @property
    def blocks_per_epoch(self) -> int:
        return -(-self.num_sentences // self._block_size)

    def epoch_of(self, block: int) -> int:
        return block // self.blocks_per_epoch

    def rows(self, block: int) -> list[list[int]]:
        """The rows of a block: sentence indices that fit side by side into one row."""
        epoch, part = divmod(block, self.blocks_per_epoch)
        order = self._epoch_order(epoch)[part * self._block_size : (part + 1) * self._block_size]
        source, target = (lengths[order] for lengths in self._lengths)
        rows = pack(source, target, *self._slots)
        if self._shuffle:
            self._random(epoch, 1 + part).shuffle(rows)
        return [[int(order[i]) for i in row] for row in rows]

    def _epoch_order(self, epoch: int) -> np.ndarray:
        if not self._shuffle:
            return np.arange(self.num_sentences)
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, self._random(epoch, 0).permutation(self.num_sentences)
        return self._order[1]

    def _random(self, epoch: int, stream: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(np.random.SeedSequence([self._seed, epoch, stream])))


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
