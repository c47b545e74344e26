"""The parameters that a name stands for: `RUN`, or a checkpoint of it, `RUN@12000`, `RUN@last`, `RUN@best`,
`RUN@average`.
"""

from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.engine.config import LoopConfig
from flax_transformer.engine.runs.checkpoints import Checkpoints
from flax_transformer.engine.runs.run_directory import RunDirectory, split_reference
from flax_transformer.engine.task import Params


def named_params(
    reference: Path | str, run: RunDirectory, training: LoopConfig, like: Params, *, step: int | None = None
) -> Params:
    """The parameters, shaped as `like`, of `run` at the checkpoint that `reference` or `step` names.

    Without either: the best checkpoint (training.best_by), or the mean of the newest if training.average_last is above
    1. `@average` is that mean, or the mean of all kept checkpoints. Raises UserError if both name one, or if there is
    no such checkpoint.
    """
    _, which = split_reference(reference)
    if step is not None:
        if which is not None:
            raise UserError(f'{reference} names a checkpoint, and so does step={step}; expected one of them')
        which = step
    average_last = training.average_last
    if which is None and average_last > 1:
        which = 'average'
    checkpoints = Checkpoints(run.checkpoints, best_by=training.best_by, read_only=True)
    try:
        if which == 'average':
            return checkpoints.restore_average(like, average_last if average_last > 1 else 0)
        return checkpoints.restore_params(like, None if which == 'best' else which)[0]
    finally:
        checkpoints.close()
