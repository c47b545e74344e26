"""Labeled texts as ids, and the endless batches of training."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from flax_transformer.data.order import Order
from flax_transformer.engine.batches import NumberedBatches, with_empty_rows

from .config import ClassificationConfig


class Batch(NamedTuple):
    """Rows of texts; a row of zeros weighs nothing. R rows, S slots."""

    tokens: np.ndarray  # [R, S] int32, padded with PAD_ID
    labels: np.ndarray  # [R] int32
    weight: np.ndarray  # [R] float32; 0 for an empty row


@dataclass(frozen=True)
class EncodedTexts:
    tokens: np.ndarray  # [N, S] int32, padded with PAD_ID
    labels: np.ndarray  # [N] int32
    weight: np.ndarray  # [N] float32, what each example's loss is multiplied by
    places: list[str]  # each text's file and line

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: np.ndarray, rows: int) -> Batch:
        return with_empty_rows(Batch(self.tokens[indices], self.labels[indices], self.weight[indices]), rows)

    def batches(self, rows: int) -> Iterator[Batch]:
        for first in range(0, len(self), rows):
            yield self.batch(np.arange(first, min(first + rows, len(self))), rows)

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for array in (self.tokens, self.labels, self.weight):
            digest.update(f'{array.dtype} {array.shape}\n'.encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


class TrainingBatches(NumberedBatches):
    """Batches without end: each text once an epoch, in an order drawn anew for each from the seed."""

    def __init__(self, config: ClassificationConfig, texts: EncodedTexts, own_rows: np.ndarray) -> None:
        super().__init__()
        self.name = config.data.train
        self._texts = texts
        self._rows = config.training.batch_size
        self._own_rows = own_rows
        # If there are fewer texts than rows, each comes once in a batch, and the other rows are empty.
        self._order = Order([len(texts)], [Fraction(1)], block_size=self._rows, seed=config.seed)

    def numbers(self, batch: int) -> np.ndarray:
        return self._order.block(batch).indices

    def batch(self, number: int) -> Batch:
        return Batch(*(x[self._own_rows] for x in self._texts.batch(self.numbers(number), self._rows)))

    def describe(self, position: Any) -> dict[str, Any]:
        return {'texts': [self._texts.places[i] for i in self.numbers(position['batch']).tolist()]}

    def epoch(self, position: Any) -> float:
        return self._order.sentences_before(position['batch']) / len(self._texts)
