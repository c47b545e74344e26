"""How a trigger word is trained."""

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from flax_transformer.common.errors import UserError
from flax_transformer.engine.devices.multihost import say
from flax_transformer.engine.monitor.reporter import Reporter
from flax_transformer.engine.runs.run_directory import LoadedRun
from flax_transformer.engine.task import Params, Sums, Task
from flax_transformer.engine.task_value import Training
from flax_transformer.engine.trainer import Trainer
from flax_transformer.engine.validation import Validation, held_out
from flax_transformer.ops.dropout import drawn_once

from .config import TriggerWordConfig
from .corpus_checks import audit
from .detector import find_hits, matched, no_hits
from .model import TriggerWordModel, init_params, with_statistics
from .run import Run
from .scenes import PARTS, Batch, Clips, Scenes, TrainingBatches, batch_of, read_parts

_SCENES_OF_STATISTICS = 32  # they give the mean and deviation of the features
_COLOR = (0.5, 0.7, 0.5)  # how much the color of training scenes varies, in deviations of a band
_MOST_MASKED = 8  # bands


class Prepared(NamedTuple):
    train: Scenes
    validation: Scenes | None


def prepare_run(config: TriggerWordConfig, run: Run, start: LoadedRun | None = None, *, processes: int = 1) -> Prepared:
    is_new = not run.exists()
    parts = read_parts(config, PARTS if is_new else PARTS[:2], say=say)
    if is_new:
        audit(parts, config).announce(say)
    seeds = {'train': config.seed, 'validation': 0}  # always the same validation scenes
    scenes = {part: scenes_of(parts[part], config, part, seed=seed) for part, seed in seeds.items() if part in parts}
    return Prepared(scenes['train'], scenes.get('validation'))


def initial_params(config: TriggerWordConfig, prepared: Prepared) -> Any:
    """Fresh parameters, with the mean and deviation of the features of training scenes."""
    params = init_params(config.model, config.features, jax.random.key(config.seed))
    samples = np.stack([prepared.train.scene(number).samples for number in range(_SCENES_OF_STATISTICS)])
    return with_statistics(params, samples, config.features)


def scenes_of(clips: Clips, config: TriggerWordConfig, part: str, *, seed: int) -> Scenes:
    """Raises UserError if no trigger word fits into a scene."""
    seconds = min(clip.end - clip.start for clip in clips.triggers) / config.features.sample_rate
    if seconds + 1 > config.scenes.seconds:
        raise UserError(
            f'data.{part}: the trigger word takes {seconds:.1f} s where it is shortest; expected scenes.seconds='
            f'{config.scenes.seconds:g} to be at least a second more'
        )
    return Scenes(clips, config, seed=seed)


class TriggerWordTask(Task):
    """The binary cross-entropy on the output frames of scenes."""

    counts = ('weighted_frames', 'frames')

    def __init__(self, config: TriggerWordConfig) -> None:
        self.rows_per_step = config.training.batch_size
        self.row_name = f'{config.scenes.seconds:g} seconds'
        self.d_model = config.model.hidden_size
        self._config = config
        self._model = TriggerWordModel(config.model, config.features)

    def init(self, key: jax.Array) -> Params:
        return init_params(self._config.model, self._config.features, key)

    def loss(self, params: Params, batch: Batch, key: jax.Array | None) -> tuple[jax.Array, Sums]:
        options = {}
        if key is not None:
            coloring, dropout = jax.random.split(key)
            rngs = {'dropout': drawn_once(dropout)}
            options = {'change': partial(recolored, coloring), 'deterministic': False, 'rngs': rngs}
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
            'recall': sums['positives_right'] / max(sums['positives'], 1.0),
            'frames': sums['frames'],
        }

    def batch_shapes(self) -> Batch:
        config = self._config
        outputs = int(config.scenes.seconds * config.features.sample_rate) // config.samples_per_output
        widths = (outputs * config.samples_per_output, outputs, outputs)
        return Batch(*(jax.ShapeDtypeStruct((self.rows_per_step, width), jnp.float32) for width in widths))


def recolored(key: jax.Array, frames: jax.Array) -> jax.Array:
    """Normalized frames [B, F, M] as another microphone hears them: each scene's spectrum is tilted and bent at random.

    Some neighboring bands are masked with 0, their mean, as in SpecAugment (Park et al. 2019).
    """
    color_key, first_key, count_key = jax.random.split(key, 3)
    scenes, _, bands = frames.shape
    height = np.linspace(-1, 1, bands)
    curves = np.stack([np.cos(np.pi * height), height, np.sin(np.pi * height)]) * np.array(_COLOR)[:, None]
    color = jax.random.normal(color_key, (scenes, len(_COLOR)), jnp.float32) @ curves.astype(np.float32)
    first = jax.random.randint(first_key, (scenes, 1), 0, bands, jnp.int32)
    count = jax.random.randint(count_key, (scenes, 1), 0, min(_MOST_MASKED, bands) + 1, jnp.int32)
    band = np.arange(bands)[None]
    is_masked = (band >= first) & (band < first + count)
    return jnp.where(is_masked[:, None], 0, frames + color[:, None])


class TriggerWordValidation(Validation):
    def __init__(self, config: TriggerWordConfig, prepared: Prepared, trainer: Trainer) -> None:
        super().__init__(trainer)
        self._rule = config.hits
        self._seconds = config.samples_per_output / config.features.sample_rate  # an output frame's
        scenes = [prepared.validation.scene(number) for number in range(config.training.validation_scenes)]
        rows = config.training.batch_size
        self._batches = [batch_of(scenes[first : first + rows], rows) for first in range(0, len(scenes), rows)]
        self._ends = [np.array(scene.ends) / config.features.sample_rate for scene in scenes]
        self._apply = jax.jit(TriggerWordModel(config.model, config.features).apply)

    def batches(self) -> Iterable[Batch]:
        return self._batches

    def predict(self, params: Params, step: int, reporter: Reporter) -> dict[str, float]:
        logits = np.concatenate([self._apply({'params': params}, batch.samples) for batch in self._batches])
        misses = 0
        false_accepts = 0
        for row, ends in zip(logits, self._ends, strict=False):  # the last rows may be empty
            heard, _ = find_hits(1 / (1 + np.exp(-row)), no_hits(self._rule), self._rule, self._seconds)
            result = matched(heard, ends)
            misses += result.misses
            false_accepts += len(result.false_accepts)
        words = sum(map(len, self._ends))
        hours = len(self._ends) * logits.shape[1] * self._seconds / 3600
        return {'false_rejects': misses / max(words, 1), 'false_accepts_per_hour': false_accepts / hours}


def training() -> Training:
    return Training(
        make_task=lambda config, devices: TriggerWordTask(config),
        prepare=prepare_run,
        fingerprint=lambda config, prepared: prepared.train.fingerprint,
        batches=lambda config, prepared, trainer: TrainingBatches(config, prepared.train, trainer.own_rows),
        validation=held_out(TriggerWordValidation),
        initial_params=initial_params,
    )
