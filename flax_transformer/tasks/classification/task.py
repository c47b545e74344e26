"""Classification as a task of the engine."""

import jax
import jax.numpy as jnp

from flax_transformer.engine.losses import cross_entropy
from flax_transformer.engine.task import Params, Sums, Task
from flax_transformer.tasks.classification.batches import Batch
from flax_transformer.tasks.classification.config import Config
from flax_transformer.tasks.classification.model import ClassifierModel, init_params


class ClassificationTask(Task):
    """The config's model and its cross-entropy on labelled texts."""

    slot_name = 'token_slots'
    counts = ('weighted_examples', 'examples')

    def __init__(self, config: Config) -> None:
        self.rows_per_step, self.slots_per_row = config.training.batch_size, config.data.max_length
        self.row_name = f'{config.data.max_length} slots'
        self.d_model, self.dtype = config.model.d_model, config.model.dtype
        self._config, self._model = config, ClassifierModel(config.model)

    def init(self, key: jax.Array) -> Params:
        return init_params(self._config.model, key)

    def loss(self, params: Params, batch: Batch, key: jax.Array | None) -> tuple[jax.Array, Sums]:
        rngs = {} if key is None else {'dropout': key}
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
        weight, examples = max(sums['weighted_examples'], 1e-9), max(sums['examples'], 1.0)
        return {
            'loss': sums['loss'] / weight,
            'nll': sums['nll'] / weight,
            'accuracy': sums['right'] / examples,
            'examples': sums['examples'],
        }

    def batch_shapes(self) -> Batch:
        rows, slots = self.rows_per_step, self.slots_per_row
        labels = jax.ShapeDtypeStruct((rows,), jnp.int32)
        weight = jax.ShapeDtypeStruct((rows,), jnp.float32)
        return Batch(jax.ShapeDtypeStruct((rows, slots), jnp.int32), labels, weight)
