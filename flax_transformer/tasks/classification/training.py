"""How a classifier is trained."""

from collections.abc import Iterator
from dataclasses import replace

import jax
import jax.numpy as jnp

from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.losses import cross_entropy
from flax_transformer.engine.monitor.reporter import Reporter
from flax_transformer.engine.task import Params, Sums, Task
from flax_transformer.engine.task_value import Training
from flax_transformer.engine.trainer import Trainer
from flax_transformer.engine.validation import Validation, held_out
from flax_transformer.ops.dropout import drawn_once
from flax_transformer.ops.product import resolve_dtype

from .batches import Batch, TrainingBatches
from .classifier import Predictor
from .config import ClassificationConfig
from .metrics import accuracy, confusion_matrix, fitted_temperature, macro_f1
from .model import ClassifierModel, init_params
from .preparation import Prepared, initial_params, keep, prepare_run
from .run import TEMPERATURE
from .vocabulary import PAD_ID


class ClassificationTask(Task):
    """The cross-entropy on labeled texts."""

    slot_name = 'token_slots'
    counts = ('weighted_examples', 'examples')

    def __init__(self, config: ClassificationConfig) -> None:
        self.rows_per_step = config.training.batch_size
        self.slots_per_row = config.data.max_length
        self.row_name = f'{config.data.max_length} slots'
        self.d_model = config.model.d_model
        self.dtype = config.model.dtype
        self._config = config
        self._model = ClassifierModel(config.model)

    def init(self, key: jax.Array) -> Params:
        return init_params(self._config.model, key)

    def loss(self, params: Params, batch: Batch, key: jax.Array | None) -> tuple[jax.Array, Sums]:
        rngs = {} if key is None else {'dropout': drawn_once(key)}
        logits = self._model.apply({'params': params}, batch.tokens, deterministic=key is None, rngs=rngs)
        smoothed, nll = cross_entropy(logits, batch.labels, label_smoothing=self._config.training.label_smoothing)
        is_example = batch.weight > 0
        sums = {
            'weighted_examples': batch.weight.sum(),
            'examples': is_example.sum(),
            'nll': (nll * batch.weight).sum(),
            'right': (is_example & (logits.argmax(axis=-1) == batch.labels)).sum(),
        }
        return (smoothed * batch.weight).sum(), sums

    def summarize(self, sums: dict[str, float]) -> dict[str, float]:
        weight = max(sums['weighted_examples'], 1e-9)
        examples = sums['examples']
        means = {name: sums[name] / weight for name in ('loss', 'nll')}
        return means | {'accuracy': sums['right'] / max(examples, 1.0), 'examples': examples}

    def batch_shapes(self) -> Batch:
        rows = self.rows_per_step
        tokens = jax.ShapeDtypeStruct((rows, self.slots_per_row), jnp.int32)
        labels = jax.ShapeDtypeStruct((rows,), jnp.int32)
        weight = jax.ShapeDtypeStruct((rows,), jnp.float32)
        return Batch(tokens, labels, weight)


class ClassificationValidation(Validation):
    def __init__(self, config: ClassificationConfig, prepared: Prepared, trainer: Trainer) -> None:
        super().__init__(trainer)
        self._texts = prepared.validation
        self._rows = config.training.batch_size
        self._predictor = Predictor(config.model)
        self._ids = [row[row != PAD_ID] for row in self._texts.tokens]

    def batches(self) -> Iterator[Batch]:
        return self._texts.batches(self._rows)

    def predict(self, params: Params, step: int, reporter: Reporter) -> dict[str, float]:
        probabilities = self._predictor(params, self._ids)
        labels = self._texts.labels
        confusion = confusion_matrix(probabilities.argmax(axis=1), labels, self._predictor.num_classes)
        return {
            'accuracy': accuracy(probabilities, labels),
            'macro_f1': macro_f1(confusion),
            TEMPERATURE: fitted_temperature(probabilities, labels),
        }


def _make_task(config: ClassificationConfig, devices: Devices) -> ClassificationTask:
    return ClassificationTask(replace(config, model=resolve_dtype(config.model, devices.devices[0].platform)))


def training() -> Training:
    return Training(
        make_task=_make_task,
        prepare=prepare_run,
        keep=keep,
        fingerprint=lambda config, prepared: prepared.train.fingerprint,
        batches=lambda config, prepared, trainer: TrainingBatches(config, prepared.train, trainer.own_rows),
        validation=held_out(ClassificationValidation),
        initial_params=initial_params,
    )
