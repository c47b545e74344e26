"""Validation during training: the loss on held-out text."""

from collections.abc import Iterator

import numpy as np

from flax_transformer.engine.monitor.reporter import Reporter
from flax_transformer.engine.state import TrainState
from flax_transformer.engine.trainer import Trainer
from flax_transformer.tasks.embeddings.blocks import TextBlocks


class Validation:
    """`validation(state, reporter)` gives the loss, with the same neighbors and negatives each time."""

    def __init__(self, trainer: Trainer, blocks: TextBlocks) -> None:
        self._trainer, self._blocks = trainer, blocks

    def __call__(self, state: TrainState, reporter: Reporter) -> dict[str, float]:
        return self._trainer.evaluate(state.params, self._batches())

    def _batches(self) -> Iterator[TextBlocks]:
        rows = self._trainer.task.rows_per_step
        for first in range(0, len(self._blocks.words), rows):
            part = [x[first : first + rows] for x in self._blocks]
            empty = [np.zeros((rows - len(x), *x.shape[1:]), x.dtype) for x in part]
            yield type(self._blocks)(*map(np.concatenate, zip(part, empty, strict=True)))
