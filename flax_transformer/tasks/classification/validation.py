"""Validation during training: the loss, accuracy and macro-F1 on the validation set."""

import json
from typing import Any

from flax_transformer.engine.devices import multihost
from flax_transformer.engine.monitor.reporter import Reporter
from flax_transformer.engine.state import TrainState
from flax_transformer.engine.trainer import Trainer
from flax_transformer.tasks.classification.batches import EncodedTexts
from flax_transformer.tasks.classification.config import Config
from flax_transformer.tasks.classification.metrics import accuracy, confusion_matrix, macro_f1
from flax_transformer.tasks.classification.prediction import Predictor
from flax_transformer.tasks.classification.vocabulary import PAD_ID


class Validation:
    """`validation(state, reporter)` scores the parameters to keep: the moving average, if there is one."""

    def __init__(self, config: Config, trainer: Trainer, texts: EncodedTexts) -> None:
        self._trainer, self._texts = trainer, texts
        self._rows = config.training.batch_size
        self._predictor = Predictor(config.model)
        self._ids = [row[row != PAD_ID] for row in texts.tokens]

    def __call__(self, state: TrainState, reporter: Reporter) -> dict[str, Any]:
        """Loss, accuracy and macro-F1."""
        scores = self._trainer.evaluate(state.params_to_keep, self._texts.batches(self._rows))
        params = self._trainer.devices.gather(state.params_to_keep)
        # Other processes wait for the first: scores decide when to stop, so all need the same.
        found = json.dumps(self._predict(params)) if multihost.is_first() else None
        return scores | json.loads(multihost.share(f'scores after step {int(state.step)}', found))

    def _predict(self, params: Any) -> dict[str, float]:
        found, labels = self._predictor(params, self._ids), self._texts.labels
        confusion = confusion_matrix(found.argmax(axis=1), labels, self._predictor.num_classes)
        return {'accuracy': accuracy(found, labels), 'macro_f1': macro_f1(confusion)}
