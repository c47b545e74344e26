"""The trigger word as a task of the engine."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

from flax_transformer.engine.task import Params, Sums, Task
from flax_transformer.tasks.trigger_word.config import Config
from flax_transformer.tasks.trigger_word.model import TriggerWordModel, init_params
from flax_transformer.tasks.trigger_word.scenes import Batch

_COLOR = (0.5, 0.7, 0.5)  # how much the color of training scenes varies, in deviations of a band
_MOST_MASKED = 8  # bands


class TriggerWordTask(Task):
    """The config's model and its binary cross-entropy on the output frames of scenes."""

    counts = ('weighted_frames', 'frames')

    def __init__(self, config: Config) -> None:
        self.rows_per_step = config.training.batch_size
        self.row_name = f'{config.scenes.seconds:g} seconds'
        self.d_model = config.model.hidden_size
        self._config, self._model = config, TriggerWordModel(config.model, config.features)

    def init(self, key: jax.Array) -> Params:
        return init_params(self._config.model, self._config.features, key)

    def loss(self, params: Params, batch: Batch, key: jax.Array | None) -> tuple[jax.Array, Sums]:
        options = {}
        if key is not None:
            of_frames, of_dropout = jax.random.split(key)
            options = {'change': partial(recolored, of_frames), 'deterministic': False, 'rngs': {'dropout': of_dropout}}
        logits = self._model.apply({'params': params}, batch.samples, **options)
        losses = optax.sigmoid_binary_cross_entropy(logits, batch.labels)
        is_frame = batch.weight > 0
        is_right = (logits > 0) == (batch.labels > 0)
        is_positive = is_frame & (batch.labels > 0)
        sums = {
            'weighted_frames': batch.weight.sum(),
            'frames': is_frame.sum(),
            'right': (is_frame & is_right).sum(),
            'positives': is_positive.sum(),
            'positives_right': (is_positive & is_right).sum(),
        }
        return (losses * batch.weight).sum(), sums

    def summarize(self, sums: dict[str, float]) -> dict[str, float]:
        return {
            'loss': sums['loss'] / max(sums['weighted_frames'], 1e-9),
            'accuracy': sums['right'] / max(sums['frames'], 1.0),
            'recall': sums['positives_right'] / max(sums['positives'], 1.0),  # of those with label 1
            'frames': sums['frames'],
        }

    def batch_shapes(self) -> Batch:
        config = self._config
        outputs = int(config.scenes.seconds * config.features.sample_rate) // config.samples_per_output
        widths = (outputs * config.samples_per_output, outputs, outputs)
        return Batch(*(jax.ShapeDtypeStruct((self.rows_per_step, width), jnp.float32) for width in widths))


def recolored(key: jax.Array, frames: jax.Array) -> jax.Array:
    """Normalized frames [B, F, M] as another microphone hears them: each scene's spectrum is tilted and bent at random,
    and up to 8 neighboring bands, a random number, are 0, their mean, as in SpecAugment (Park et al. 2019)."""
    of_color, of_first, of_count = jax.random.split(key, 3)
    scenes, _, bands = frames.shape
    place = np.linspace(-1, 1, bands)
    curves = np.stack([np.cos(np.pi * place), place, np.sin(np.pi * place)]) * np.array(_COLOR)[:, None]
    color = jax.random.normal(of_color, (scenes, len(_COLOR))) @ curves.astype(np.float32)
    first = jax.random.randint(of_first, (scenes, 1), 0, bands)
    count = jax.random.randint(of_count, (scenes, 1), 0, min(_MOST_MASKED, bands) + 1)
    band = np.arange(bands)[None]
    is_masked = (band >= first) & (band < first + count)
    return jnp.where(is_masked[:, None], 0, frames + color[:, None])
