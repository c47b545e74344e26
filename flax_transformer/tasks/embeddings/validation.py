"""Validation during training: the loss on held-out text, with the same neighbors and negatives each time."""

from collections.abc import Iterator

import numpy as np

from flax_transformer.engine import recipe as validation
from flax_transformer.engine.trainer import Trainer
from flax_transformer.tasks.embeddings.blocks import TextBlocks


class Validation(validation.Validation):
    predicts = False

    def __init__(self, trainer: Trainer, blocks: TextBlocks) -> None:
        super().__init__(trainer)
        self._blocks = blocks

    def batches(self) -> Iterator[TextBlocks]:
        rows = self.trainer.task.rows_per_step
        for first in range(0, len(self._blocks.words), rows):
            part = [x[first : first + rows] for x in self._blocks]
            empty = [np.zeros((rows - len(x), *x.shape[1:]), x.dtype) for x in part]
            yield type(self._blocks)(*map(np.concatenate, zip(part, empty, strict=True)))
