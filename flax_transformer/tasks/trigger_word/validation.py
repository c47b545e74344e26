"""Validation during training: the loss on scenes of the validation recordings, and the hits in them."""

from collections.abc import Iterable
from functools import partial

import jax
import numpy as np

from flax_transformer.engine import recipe as validation
from flax_transformer.engine.monitor.reporter import Reporter
from flax_transformer.engine.task import Params
from flax_transformer.engine.trainer import Trainer
from flax_transformer.tasks.trigger_word import hits
from flax_transformer.tasks.trigger_word.batches import Batch, batches_of
from flax_transformer.tasks.trigger_word.config import Config
from flax_transformer.tasks.trigger_word.model import TriggerWordModel
from flax_transformer.tasks.trigger_word.scenes import Scenes


class Validation(validation.Validation):
    def __init__(self, config: Config, trainer: Trainer, scenes: Scenes) -> None:
        super().__init__(trainer)
        self._hits, self._rate, self._per_output = config.hits, config.features.sample_rate, config.samples_per_output
        count = config.training.validation_scenes
        self._batches = list(batches_of(scenes, count, config.training.batch_size))
        self._ends = [scenes.scene(number).ends for number in range(count)]
        model = TriggerWordModel(config.model, config.features)
        self._logits = jax.jit(lambda params, samples: model.apply({'params': params}, samples))

    def batches(self) -> Iterable[Batch]:
        return self._batches

    def predict(self, params: Params, step: int, reporter: Reporter) -> dict[str, float]:
        """The share of words that are missed, and false accepts an hour."""
        compute = partial(self._logits, params)
        logits = np.concatenate([np.asarray(compute(batch.samples)) for batch in self._batches])
        seconds = self._per_output / self._rate
        misses = false_accepts = words = 0
        for row, ends in zip(logits, self._ends, strict=False):  # the last rows may be empty
            found, _ = hits.find_hits(1 / (1 + np.exp(-row)), hits.start(self._hits), self._hits, seconds)
            result = hits.matched(found, [end / self._rate for end in ends])
            misses, words = misses + result.misses, words + len(ends)
            false_accepts += len(result.false_accepts)
        hours = len(self._ends) * logits.shape[1] * seconds / 3600
        return {'false_rejects': misses / max(words, 1), 'false_accepts_per_hour': false_accepts / hours}
