"""Validation during training: the loss, accuracy and macro-F1 on the validation set."""

from collections.abc import Iterator

from flax_transformer.engine import recipe as validation
from flax_transformer.engine.monitor.reporter import Reporter
from flax_transformer.engine.task import Params
from flax_transformer.engine.trainer import Trainer
from flax_transformer.tasks.classification.batches import Batch, EncodedTexts
from flax_transformer.tasks.classification.config import Config
from flax_transformer.tasks.classification.metrics import accuracy, confusion_matrix, macro_f1
from flax_transformer.tasks.classification.prediction import Predictor
from flax_transformer.tasks.classification.vocabulary import PAD_ID


class Validation(validation.Validation):
    def __init__(self, config: Config, trainer: Trainer, texts: EncodedTexts) -> None:
        super().__init__(trainer)
        self._texts, self._rows = texts, config.training.batch_size
        self._predictor = Predictor(config.model)
        self._ids = [row[row != PAD_ID] for row in texts.tokens]

    def batches(self) -> Iterator[Batch]:
        return self._texts.batches(self._rows)

    def predict(self, params: Params, step: int, reporter: Reporter) -> dict[str, float]:
        found, labels = self._predictor(params, self._ids), self._texts.labels
        confusion = confusion_matrix(found.argmax(axis=1), labels, self._predictor.num_classes)
        return {'accuracy': accuracy(found, labels), 'macro_f1': macro_f1(confusion)}
