"""Preparation of a training run: the clips, and the scenes that are mixed from them."""

from typing import NamedTuple

from flax_transformer.common.errors import UserError
from flax_transformer.engine.devices import multihost
from flax_transformer.engine.devices.multihost import say
from flax_transformer.tasks.trigger_word.config import Config
from flax_transformer.tasks.trigger_word.corpus_checks import check_clips
from flax_transformer.tasks.trigger_word.recordings import PARTS, Clips, read_parts
from flax_transformer.tasks.trigger_word.run import Run
from flax_transformer.tasks.trigger_word.scenes import Scenes

_VALIDATION_SEED = 0  # of the validation scenes, whatever the run's


class Prepared(NamedTuple):
    """What training reads."""

    train: Scenes
    validation: Scenes | None


def prepare_run(config: Config, run: Run) -> Prepared:
    """Reads the recordings; the first process writes the config once all is found to be good.

    Raises UserError for anything the user can fix.
    """
    is_new = not run.exists()
    parts = read_parts(config, PARTS if is_new else PARTS[:2], say=say)
    if is_new:
        check_clips(parts, config, say=say)
    train = scenes_of(parts['train'], config, 'train', seed=config.seed)
    validation = None
    if 'validation' in parts:
        validation = scenes_of(parts['validation'], config, 'validation', seed=_VALIDATION_SEED)
    if multihost.is_first():
        run.open(config)
    return Prepared(train, validation)


def scenes_of(clips: Clips, config: Config, part: str, *, seed: int) -> Scenes:
    """Scenes of a part. Raises UserError if no trigger word fits into one."""
    seconds = min(len(clip.samples) for clip in clips.triggers) / config.features.sample_rate
    if seconds + 1 > config.scenes.seconds:
        raise UserError(
            f'data.{part}: the shortest recording of the trigger word takes {seconds:.1f} s: too long for '
            f'scenes.seconds={config.scenes.seconds:g}; expected at least a second more'
        )
    return Scenes(*clips, config, seed=seed)
