"""Endless batches of scenes."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from flax_transformer.engine.batches import NumberedBatches
from flax_transformer.tasks.trigger_word.scenes import Scenes


class Batch(NamedTuple):
    """Rows of scenes; a row of zeros weighs nothing. R rows, T samples, N output frames."""

    samples: np.ndarray  # [R, T] float32
    labels: np.ndarray  # [R, N] float32, 0 or 1
    weight: np.ndarray  # [R, N] float32


def batch_of(scenes: Scenes, numbers: range, rows: int) -> Batch:
    """The scenes of these numbers, and empty rows after them."""
    found = [scenes.scene(number) for number in numbers]
    columns = ([getattr(scene, name) for scene in found] for name in Batch._fields)
    widths = (scenes.num_samples, scenes.num_outputs, scenes.num_outputs)
    empty = [np.zeros((rows - len(found), width), np.float32) for width in widths]
    return Batch(*(np.concatenate([np.stack(x), none]) for x, none in zip(columns, empty, strict=True)))


def batches_of(scenes: Scenes, count: int, rows: int) -> Iterator[Batch]:
    """The first `count` scenes."""
    for first in range(0, count, rows):
        yield batch_of(scenes, range(first, min(first + rows, count)), rows)


class TrainingBatches(NumberedBatches):
    """Batches without end, of scenes that never come again; a pure function of the seed."""

    def __init__(self, scenes: Scenes, *, batch_size: int, name: str, own_rows: np.ndarray | None = None) -> None:
        """`own_rows` are the numbers of the rows of a global batch that this process needs; None: all."""
        super().__init__()
        self.name, self.fingerprint = name, scenes.fingerprint
        self._scenes, self._rows = scenes, batch_size
        self._own_rows = range(batch_size) if own_rows is None else own_rows.tolist()

    def batch(self, number: int) -> Batch:
        """This process's rows of a batch."""
        found = [self._scenes.scene(number * self._rows + row) for row in self._own_rows]
        return Batch(*(np.stack([getattr(scene, name) for scene in found]) for name in Batch._fields))

    def describe(self, place: Any) -> dict[str, Any]:
        """The numbers of the first and the last scene of the batch at a place."""
        first = place['batch'] * self._rows
        return {'scenes': [first, first + self._rows - 1]}
