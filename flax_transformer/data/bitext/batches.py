"""Packed batches of static shape, read by Grain: the plan says which pair goes where, the position is one integer."""

from typing import Any, NamedTuple

import grain
import numpy as np

from flax_transformer.data.bitext.packing import TokenPair
from flax_transformer.data.bitext.plan import PackingPlan

_ROW_BITS = 24  # a position is block * 2^24 + row


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


class Batch(NamedTuple):
    """Rows of packed sentences, all arrays int32; R rows, S source slots, T target slots.

    Segments number the sentences of a row from 1, the same on both sides; 0 is padding, which weighs nothing.
    Positions count each sentence's tokens from 0.
    """

    source: np.ndarray  # [R, S]
    target: np.ndarray  # [R, T]
    source_segments: np.ndarray  # [R, S]
    target_segments: np.ndarray  # [R, T]
    source_positions: np.ndarray  # [R, S]
    target_positions: np.ndarray  # [R, T]
    corpora: np.ndarray | None = None  # [R, T]: the corpus of each target token; None: there is only one


def make_batch(
    rows: list[list[TokenPair]], source_slots: int, target_slots: int, pad_id: int, *, with_corpora: bool = False
) -> Batch:
    """A batch of these rows; an empty row is padding."""
    sides = [
        _fill([[pair[side] for pair in row] for row in rows], slots, pad_id)
        for side, slots in enumerate((source_slots, target_slots))
    ]
    corpora = None
    if with_corpora:
        numbers = [[np.full(len(pair.target), pair.corpus) for pair in row] for row in rows]
        corpora = _fill(numbers, target_slots, 0)[0]
    return Batch(*(array for both in zip(*sides, strict=True) for array in both), corpora)


def _fill(rows: list[list[np.ndarray]], slots: int, pad_id: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids, segments and positions of one side."""
    ids = np.full((len(rows), slots), pad_id, np.int32)
    segments, positions = np.zeros_like(ids), np.zeros_like(ids)
    for r, row in enumerate(rows):
        end = 0
        for number, sentence in enumerate(row, start=1):
            begin, end = end, end + len(sentence)
            ids[r, begin:end] = sentence
            segments[r, begin:end] = number
            positions[r, begin:end] = np.arange(len(sentence))
    return ids, segments, positions


class PackedBatches(grain.IterDataset):
    """Training batches without end: `num_rows` consecutive rows of the plan each, from epoch to epoch.

    Each process takes a slice of every global batch, so the order of the sentences does not depend on the number of
    processes.
    """

    def __init__(
        self,
        plan: PackingPlan,
        *,
        num_rows: int,
        source_slots: int,
        target_slots: int,
        pad_id: int,
        process: int = 0,
        num_processes: int = 1,
    ) -> None:
        super().__init__()
        if num_rows % num_processes:
            raise ValueError(f'{num_rows} rows of a batch do not divide among {num_processes} processes')
        self.plan, self.num_rows = plan, num_rows
        share = num_rows // num_processes
        self.own_rows = range(process * share, (process + 1) * share)
        self._fill = (source_slots, target_slots, pad_id)

    def batch(self, rows: list[list[TokenPair]]) -> Batch:
        return make_batch([rows[i] for i in self.own_rows], *self._fill, with_corpora=len(self.plan.corpora) > 1)

    def sentences(self, state: dict[str, Any]) -> list[list[int]]:
        """The sentences of the batch at this state: for each corpus their numbers in it, from 1."""
        iterator = PackedIterator(self)
        iterator.set_state(state)
        found: list[list[int]] = [[] for _ in self.plan.corpora]
        for row in iterator.next_rows():
            for pair in row:
                numbers = self.plan.corpora[pair.corpus].numbers
                found[pair.corpus].append((pair.index if numbers is None else int(numbers[pair.index])) + 1)
        return [sorted(numbers) for numbers in found]

    def __iter__(self) -> 'PackedIterator':
        return PackedIterator(self)


class PackedIterator(grain.DatasetIterator):
    """Reads on from a place; its state is one integer."""

    def __init__(self, dataset: PackedBatches) -> None:
        super().__init__()
        self._dataset = dataset
        self._place = Place(0, 0)
        self._block: tuple[int, list[list[TokenPair]]] | None = None  # the last block planned, and its rows

    def __next__(self) -> Batch:
        return self._dataset.batch(self.next_rows())

    def next_rows(self) -> list[list[TokenPair]]:
        """The sentences of the next batch, row by row; moves past them."""
        rows: list[list[TokenPair]] = []
        place = self._place
        while len(rows) < self._dataset.num_rows:
            if self._block is None or self._block[0] != place.block:
                self._block = place.block, self._dataset.plan.rows(place.block)
            taken = self._block[1][place.row : place.row + self._dataset.num_rows - len(rows)]
            rows += taken
            row = place.row + len(taken)
            place = Place(place.block + 1, 0) if row >= len(self._block[1]) else Place(place.block, row)
        self._place = place
        return rows

    def get_state(self) -> dict[str, Any]:
        return {'position': self._place.position}

    def set_state(self, state: dict[str, Any]) -> None:
        self._place = Place.of(int(state['position']))
