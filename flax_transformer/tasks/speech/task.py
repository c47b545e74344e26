"""Speech to text as a task of the engine."""

import jax
import jax.numpy as jnp

from flax_transformer.engine.task import Params, Sums, Task
from flax_transformer.tasks.speech.batches import Batch
from flax_transformer.tasks.speech.config import Config
from flax_transformer.tasks.speech.ctc import ctc_cost
from flax_transformer.tasks.speech.front_end import features_of, training_features
from flax_transformer.tasks.speech.model import SpeechModel, init_params


class SpeechTask(Task):
    """The config's model and the CTC cost of transcripts.

    A batch's rows are as long as one of a few lengths; `slots_per_row` and `batch_shapes` are those of the longest,
    with as many labels as could fit.
    """

    slot_name = 'frame_slots'
    counts = ('labels', 'utterances')

    def __init__(self, config: Config) -> None:
        self.rows_per_step, self.slots_per_row = config.training.batch_size, config.most_frames
        self.row_name = f'{self.slots_per_row} feature frames'
        self.d_model, self.dtype = config.model.d_model, config.model.dtype
        self._config, self._model = config, SpeechModel(config.model)

    def init(self, key: jax.Array) -> Params:
        return init_params(self._config.model, self._config.features.num_mels, key)

    def loss(self, params: Params, batch: Batch, key: jax.Array | None) -> tuple[jax.Array, Sums]:
        config, rngs = self._config, {}
        if key is None:
            features, num_frames = features_of(batch.samples, batch.num_samples, config.features)
        else:
            perturbing, dropout = jax.random.split(key)
            rngs = {'dropout': dropout}
            features, num_frames = training_features(
                perturbing, batch.samples, batch.num_samples, config.features, config.perturbation
            )
        logits, num_frames = self._model.apply(
            {'params': params}, features, num_frames, deterministic=key is None, rngs=rngs
        )
        cost, fits = ctc_cost(logits, num_frames, batch.labels, batch.num_labels)
        is_utterance = batch.num_samples > 0
        counts = is_utterance & fits
        sums = {
            'labels': jnp.where(counts, batch.num_labels, 0).sum(),
            'utterances': counts.sum(),
            'too_short': (is_utterance & ~fits).sum(),  # for their labels
        }
        return jnp.where(counts, cost, 0.0).sum(), sums

    def summarize(self, sums: dict[str, float]) -> dict[str, float]:
        return {
            'loss': sums['loss'] / max(sums['labels'], 1.0),
            'utterances': sums['utterances'],
            'too_short': sums['too_short'],
        }

    def batch_shapes(self) -> Batch:
        config, rows = self._config, self.rows_per_step
        integers = jax.ShapeDtypeStruct((rows,), jnp.int32)
        return Batch(
            jax.ShapeDtypeStruct((rows, config.most_samples), jnp.float32),
            integers,
            jax.ShapeDtypeStruct((rows, -(-config.most_frames // config.model.stride)), jnp.int32),
            integers,
        )
