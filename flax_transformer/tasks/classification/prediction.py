"""Probabilities of labels for many texts: static shapes, and the same numbers in any company."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from flax_transformer.tasks.classification.batches import padded
from flax_transformer.tasks.classification.config import ClassifierConfig
from flax_transformer.tasks.classification.model import ClassifierModel, probabilities

ROWS = 32  # texts at a time, however many there are
LEAST_SLOTS = 16


def slots_for(length: int) -> int:
    """The slots of the batch that a text of this many tokens goes into: a power of two.

    >>> [slots_for(n) for n in (1, 16, 17, 100)]
    [16, 16, 32, 128]
    """
    return max(LEAST_SLOTS, 1 << (length - 1).bit_length())


class Predictor:
    """Computes the probabilities of labels.

    A text shares its batch with texts of about its own length only. So the shape that it is computed in, and with it
    the rounding of its result, does not depend on the others. Compiles once for each power of two of tokens.
    """

    def __init__(self, config: ClassifierConfig) -> None:
        self.num_classes = config.num_classes
        self._compute = jax.jit(partial(probabilities, model=ClassifierModel(config)))

    def __call__(
        self, params: Any, ids: Sequence[Sequence[int]], progress: Callable[[int], None] | None = None
    ) -> np.ndarray:
        """[N, C] float32, for the ids of N texts; of a text without any, whatever the model makes of nothing."""
        out = np.zeros((len(ids), self.num_classes), np.float32)
        slots = np.array([slots_for(max(len(text), 1)) for text in ids], int)
        for size in np.unique(slots).tolist():
            alike = np.flatnonzero(slots == size)
            for first in range(0, len(alike), ROWS):
                chosen = alike[first : first + ROWS]
                tokens = padded([ids[i] for i in chosen] + [[]] * (ROWS - len(chosen)), size)
                out[chosen] = np.asarray(self._compute(params, tokens))[: len(chosen)]
                if progress:
                    progress(len(chosen))
        return out
