"""The endless batches of training, from chunks of what is on disk."""

from typing import Any, NamedTuple, Protocol

import grain
import numpy as np

from flax_transformer.tasks.embeddings.config import EmbeddingsConfig


class Chunks(Protocol):
    """What an epoch reads, in parts that fit in memory."""

    def __len__(self) -> int: ...

    def __call__(self, chunk: int, generator: np.random.Generator) -> NamedTuple:
        """The rows of a chunk: a named tuple of arrays [rows, ...]."""


class TrainingBatches(grain.IterDataset):
    """Batches without end: every chunk once an epoch, in an order drawn anew for each.

    A pure function of the seed and the number of the chunk, counted on from epoch to epoch.
    """

    def __init__(self, config: EmbeddingsConfig, chunks: Chunks, fingerprint: str, own_rows: np.ndarray) -> None:
        super().__init__()
        self.name, self.fingerprint = config.data.train, fingerprint
        self._chunks, self._seed, self._own_rows = chunks, config.seed, own_rows
        self._rows = config.training.blocks_per_step
        self._epoch, self._order = -1, np.empty(0, np.int64)

    def chunk_at(self, number: int) -> int:
        """Which chunk is read at a position of the endless order."""
        epoch, position = divmod(number, len(self._chunks))
        if epoch != self._epoch:
            self._order = np.random.default_rng([self._seed, epoch, 1]).permutation(len(self._chunks))
            self._epoch = epoch
        return int(self._order[position])

    def read(self, number: int) -> NamedTuple:
        """The rows of the chunk at a position of the endless order."""
        return self._chunks(self.chunk_at(number), np.random.default_rng([self._seed, number, 0]))

    def own(self, batch: NamedTuple) -> NamedTuple:
        return type(batch)(*(x[self._own_rows] for x in batch))

    def describe(self, position: Any) -> dict[str, Any]:
        """The chunk where the batch at a position begins, and the row in it."""
        return {'chunk': self.chunk_at(position['chunk']), 'row': position['row']}

    def epoch(self, position: Any) -> float:
        return position['chunk'] / len(self._chunks)

    def __iter__(self) -> 'BatchIterator':
        return BatchIterator(self, self._rows)


class BatchIterator(grain.DatasetIterator):
    """Reads on from a position: a chunk, counted from the first epoch on, and a row in it."""

    def __init__(self, batches: TrainingBatches, rows: int) -> None:
        super().__init__()
        self._batches, self._rows = batches, rows
        self._chunk = self._row = 0
        self._read: NamedTuple | None = None  # the rows of the chunk

    def __next__(self) -> NamedTuple:
        parts, missing = [], self._rows
        while missing:
            read = self._read = self._batches.read(self._chunk) if self._read is None else self._read
            part = type(read)(*(x[self._row : self._row + missing] for x in read))
            parts.append(part)
            missing -= len(part[0])
            self._row += len(part[0])
            if self._row >= len(read[0]):
                self._chunk, self._row, self._read = self._chunk + 1, 0, None
        return self._batches.own(type(parts[0])(*map(np.concatenate, zip(*parts, strict=True))))

    def get_state(self) -> dict[str, int]:
        return {'chunk': self._chunk, 'row': self._row}

    def set_state(self, state: dict[str, int]) -> None:
        self._chunk, self._row, self._read = int(state['chunk']), int(state['row']), None
