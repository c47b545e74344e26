"""A run whose parameters are the mean of several checkpoints of another (Vaswani et al. 2017, section 6.1)."""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.engine.runs.checkpoints import Checkpoints
from flax_transformer.engine.runs.run_directory import RunDirectory
from flax_transformer.tasks.translation.inference.loading import parameter_shapes

AVERAGE_FILE = 'average.json'


def average(
    path: Path | str, out: Path | str, *, last: int = 0, best: int = 0, steps: Sequence[int] = ()
) -> tuple[RunDirectory, list[int]]:
    """Makes `out` a run directory of the mean of a run's checkpoints, at step 0; and says of which steps it is.

    Of the newest `last`, of the best `best` by the run's training.best_by, or of those of the given steps: one of the
    three. With a moving average of the parameters (ema_decay) it is the mean of these averages, as they are kept.

    Raises UserError where there are fewer, where one was made by another model, and where `out` is already there.
    """
    if sum(map(bool, (last, best, steps))) != 1 or last < 0 or best < 0:
        raise UserError('expected one of: the last N checkpoints, the best N, or a list of steps; N at least 1')
    run, made = RunDirectory(path), RunDirectory(out)
    config = run.read_config()
    if made.path.exists() and not (made.path.is_dir() and not any(made.path.iterdir())):
        raise UserError(f'{made.path} exists already; give another, or remove it')
    with contextlib.closing(
        Checkpoints(run.checkpoints, best_by=config.training.best_by, read_only=True)
    ) as checkpoints:
        there = checkpoints.steps()
        if steps:
            chosen = sorted(set(steps))
            missing = [str(step) for step in chosen if step not in there]
            what = f'no checkpoint of step {", ".join(missing)}' if missing else ''
        else:
            count, chosen = (last, there[-last:]) if last else (best, checkpoints.best_steps(best))
            measured = '' if last else f' with a validation {config.training.best_by}'
            what = f'{len(chosen)} checkpoints{measured}, not {count}' if len(chosen) < count else ''
        if what:
            raise UserError(
                f'{run.path} has {what}; there are steps {", ".join(map(str, there)) or "none"}: ask for fewer, or '
                'keep more while training (training.keep_last, training.keep_best)'
            )
        params = checkpoints.restore_mean(parameter_shapes(config), chosen)
    # There is but this one checkpoint in it.
    made.open(replace(config, training=replace(config.training, average_last=1)))
    made.write_tokenizer(run.read_tokenizer())
    origin = {'run': str(run.path), 'steps': chosen}
    (made.path / AVERAGE_FILE).write_text(json.dumps(origin) + '\n', encoding='utf-8')
    with contextlib.closing(Checkpoints(made.checkpoints)) as checkpoints:
        checkpoints.save_params(params)
    return made, chosen
