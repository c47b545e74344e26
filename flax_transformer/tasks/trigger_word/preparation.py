"""Preparation of a training run: the clips, and the scenes that are mixed from them."""

from typing import Any, NamedTuple

import jax
import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.engine.devices.multihost import say
from flax_transformer.tasks.trigger_word.clips import PARTS, Clips, read_parts
from flax_transformer.tasks.trigger_word.config import Config
from flax_transformer.tasks.trigger_word.corpus_checks import audit
from flax_transformer.tasks.trigger_word.model import init_params, with_statistics
from flax_transformer.tasks.trigger_word.run import LoadedRun, Run
from flax_transformer.tasks.trigger_word.scenes import Scenes
from flax_transformer.tasks.trigger_word.trusted_data import seal_data

_SCENES_OF_STATISTICS = 32  # from which the mean and deviation of the features are taken
_VALIDATION_SEED = 0  # of the validation scenes, whatever the run's


class Prepared(NamedTuple):
    """What training reads."""

    train: Scenes
    validation: Scenes | None


def prepare_run(config: Config, run: Run, start: LoadedRun | None = None, *, processes: int = 1) -> Prepared:
    """Reads the recordings, and checks those of a new run. Raises UserError for anything the user can fix.

    A run may start from one of another word. One process does it all.
    """
    is_new = not run.exists()
    parts = read_parts(config, PARTS if is_new else PARTS[:2], say=say)
    if is_new:
        audit(parts, config).announce(say)
    train = scenes_of(parts['train'], config, 'train', seed=config.seed)
    validation = None
    if 'validation' in parts:
        validation = scenes_of(parts['validation'], config, 'validation', seed=_VALIDATION_SEED)
    return Prepared(train, validation)


def keep(run: Run, config: Config, prepared: Prepared) -> None:
    seal_data(run, config.data, say=say)


def initial_params(config: Config, prepared: Prepared) -> Any:
    """Fresh parameters, with the mean and the deviation that the features of training scenes have."""
    params = init_params(config.model, config.features, jax.random.key(config.seed))
    samples = np.stack([prepared.train.scene(number).samples for number in range(_SCENES_OF_STATISTICS)])
    return with_statistics(params, samples, config.features)


def scenes_of(clips: Clips, config: Config, part: str, *, seed: int) -> Scenes:
    """Scenes of a part. Raises UserError if no trigger word fits into one."""
    seconds = min(len(clip.samples) for clip in clips.triggers) / config.features.sample_rate
    if seconds + 1 > config.scenes.seconds:
        raise UserError(
            f'data.{part}: the shortest recording of the trigger word takes {seconds:.1f} s: too long for '
            f'scenes.seconds={config.scenes.seconds:g}; expected at least a second more'
        )
    return Scenes(*clips, config, seed=seed)
