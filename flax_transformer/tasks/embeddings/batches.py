"""The endless batches of training, from chunks of what is on disk."""

import functools
from typing import Any, NamedTuple, Protocol

import grain
import numpy as np

from .config import EmbeddingsConfig


class Chunks(Protocol):
    """What an epoch reads, in parts that fit in memory."""

    def __len__(self) -> int: ...

    def __call__(self, chunk: int, generator: np.random.Generator) -> NamedTuple:
        """The rows of a chunk: a named tuple of arrays [rows, ...]."""


class TrainingBatches(grain.IterDataset):
    """Batches without end: every chunk once an epoch, in an order drawn anew for each from the seed."""

    def __init__(self, config: EmbeddingsConfig, chunks: Chunks, own_rows: np.ndarray) -> None:
        super().__init__()
        self.name = config.data.train
        self._chunks = chunks
        self._seed = config.seed
        self._own_rows = own_rows
        self._rows = config.training.blocks_per_step
        self._order = functools.lru_cache(1)(self._drawn)

    def _drawn(self, epoch: int) -> np.ndarray:
        return np.random.default_rng([self._seed, epoch, 1]).permutation(len(self._chunks))

    def chunk_at(self, number: int) -> int:
        epoch, position = divmod(number, len(self._chunks))
        return int(self._order(epoch)[position])

    def read(self, number: int) -> NamedTuple:
        return self._chunks(self.chunk_at(number), np.random.default_rng([self._seed, number, 0]))

    def own(self, batch: NamedTuple) -> NamedTuple:
        return type(batch)(*(x[self._own_rows] for x in batch))

    def describe(self, position: Any) -> dict[str, Any]:
        return {'chunk': self.chunk_at(position['chunk']), 'row': position['row']}

    def epoch(self, position: Any) -> float:
        return position['chunk'] / len(self._chunks)

    def __iter__(self) -> 'BatchIterator':
        return BatchIterator(self, self._rows)


class BatchIterator(grain.DatasetIterator):
    """Reads on from a position: a chunk, counted from the first epoch on, and a row in it."""

    def __init__(self, batches: TrainingBatches, rows: int) -> None:
        super().__init__()
        self._batches = batches
        self._rows = rows
        self._move_to(chunk=0, row=0)

    def _move_to(self, *, chunk: int, row: int) -> None:
        self._chunk = chunk
        self._row = row
        self._chunk_rows: NamedTuple | None = None  # read when the next batch is asked for

    def __next__(self) -> NamedTuple:
        parts = []
        missing = self._rows

        while missing:
            if self._chunk_rows is None:
                self._chunk_rows = self._batches.read(self._chunk)
            rows = self._chunk_rows
            parts.append([x[self._row : self._row + missing] for x in rows])
            count = len(parts[-1][0])
            missing -= count
            self._row += count
            if self._row >= len(rows[0]):
                self._move_to(chunk=self._chunk + 1, row=0)

        batch = map(np.concatenate, zip(*parts, strict=True))
        return self._batches.own(type(rows)(*batch))

    def get_state(self) -> dict[str, int]:
        return {'chunk': self._chunk, 'row': self._row}

    def set_state(self, state: dict[str, int]) -> None:
        self._move_to(chunk=int(state['chunk']), row=int(state['row']))
