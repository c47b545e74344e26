"""A trained model by name: `RUN`, or a checkpoint of it, `RUN@12000`, `RUN@last`, `RUN@best`, `RUN@average`."""

from pathlib import Path
from typing import Any, NamedTuple

from flax_transformer.common.errors import UserError
from flax_transformer.engine.runs.checkpoints import Checkpoints
from flax_transformer.engine.runs.run_directory import split_reference
from flax_transformer.tasks.trigger_word.config import Config
from flax_transformer.tasks.trigger_word.model import parameter_shapes
from flax_transformer.tasks.trigger_word.run import Run


class LoadedRun(NamedTuple):
    """All that it takes to detect."""

    config: Config
    params: Any


def load_run(reference: Path | str, *, step: int | None = None) -> LoadedRun:
    """The config and parameters of a run.

    Without `@which` and `step`: the best checkpoint (training.best_by), or the mean of the newest if
    training.average_last is above 1. `@average` is that mean, or the mean of all kept checkpoints.
    """
    path, which = split_reference(reference)
    run = Run(path)
    config = run.read_config()
    if step is not None:
        if which is not None:
            raise UserError(f'{reference} names a checkpoint, and so does step={step}; expected one of them')
        which = step
    average_last = config.training.average_last
    if which is None and average_last > 1:
        which = 'average'
    checkpoints = Checkpoints(run.checkpoints, best_by=config.training.best_by, read_only=True)
    try:
        like = parameter_shapes(config.model, config.features)
        if which == 'average':
            params = checkpoints.restore_average(like, average_last if average_last > 1 else 0)
        else:
            params, _ = checkpoints.restore_params(like, None if which == 'best' else which)
    finally:
        checkpoints.close()
    return LoadedRun(config, params)
