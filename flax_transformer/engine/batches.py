"""Endless batches: batch n is a pure function of n."""

from typing import Any

import grain
import jax
import numpy as np

from .task import Batch


def with_empty_rows(batch: Any, rows: int) -> Any:
    """A tree of arrays [n, ...] with rows of zeros after the n, `rows` in all."""
    return jax.tree.map(lambda x: np.pad(x, ((0, rows - len(x)), *[(0, 0)] * (x.ndim - 1))), batch)


class Data(grain.IterDataset):
    """Endless batches whose iterators know their position."""

    name: str  # shown in messages
    is_made = False  # whether examples are made as they are needed, not read

    def describe(self, position: Any) -> dict[str, Any]:
        """Names the examples of the batch at a position; JSON, logged with a loss spike."""
        return dict(position)

    def epoch(self, position: Any) -> float | None:
        """The passes over the data before a position, such as 3.2, for reports; None: not counted."""
        return None


class NumberedBatches(Data):
    """Batches made from their numbers by a subclass's `batch`: resuming needs only the number of the next one."""

    def batch(self, number: int) -> Batch:
        """This process's rows of a global batch."""
        raise NotImplementedError

    def __iter__(self) -> 'NumberedIterator':
        return NumberedIterator(self)


class NumberedIterator(grain.DatasetIterator):
    """Reads on from a position, the number of the next batch."""

    def __init__(self, batches: NumberedBatches) -> None:
        super().__init__()
        self._batches = batches
        self._next = 0

    def __next__(self) -> Batch:
        number = self._next
        self._next += 1
        try:
            return self._batches.batch(number)
        except SystemExit as error:  # ends the thread that prefetches, alone: training would wait for ever
            raise RuntimeError(f'batch {number} asked to exit, with {error}; expected a batch or an error') from error

    def get_state(self) -> dict[str, int]:
        return {'batch': self._next}

    def set_state(self, state: dict[str, int]) -> None:
        self._next = int(state['batch'])
