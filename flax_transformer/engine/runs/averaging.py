"""A run whose parameters are the mean of several checkpoints of another (Vaswani et al. 2017, section 6.1)."""

import contextlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax

from flax_transformer.common.compilation_cache import keep, kept_file, read_kept
from flax_transformer.common.errors import UserError
from flax_transformer.common.trees import shapes_on_one_device

from .checkpoints import Checkpoints
from .reading import CheckpointReader
from .run_directory import RunDirectory, split_reference
from .trust import is_remembered, remember, remembered_task_folder

AVERAGE_FILE = 'average.json'


def average(
    run: RunDirectory,
    out: Path | str,
    shapes: Any,
    *,
    last: int = 0,
    best: int = 0,
    steps: Sequence[int] = (),
    int8: bool = False,
) -> tuple[RunDirectory, list[int]]:
    """Makes `out` a run whose only checkpoint, step 0, is the mean of a run's checkpoints; returns it and their steps.

    Averages the newest `last`, the best `best` by training.best_by, or the given `steps`: one of the three. `shapes`
    are the parameters', each with a sharding; `int8` keeps matrices in eight bits.
    """
    if sum(map(bool, (last, best, steps))) != 1 or last < 0 or best < 0:
        raise UserError('average: expected one of --last N, --best N and --steps 1000,2000, with N of at least 1')
    made = type(run)(out)
    config = run.read_config()
    _check_copy(run, made)
    checkpoints = CheckpointReader(run.checkpoints, best_by=config.training.best_by)
    choose = partial(_choose, run, checkpoints, last, best, steps, config.training.best_by)
    choose()  # an error in the request comes before any reading
    params, chosen = checkpoints.restore_mean(shapes, choose)
    config = replace(config, training=replace(config.training, average_last=1))
    write_copy(run, out, config, params, int8=int8)
    origin = {'run': str(run.path), 'steps': chosen}
    (made.path / AVERAGE_FILE).write_text(json.dumps(origin) + '\n', encoding='utf-8')
    return made, chosen


def _check_copy(run: RunDirectory, made: RunDirectory) -> None:
    if made.path.is_file() or (made.path.is_dir() and any(made.path.iterdir())):
        raise UserError(f'{made.path} exists already; give another, or remove it')
    refuse_links(run)


def refuse_links(run: RunDirectory) -> None:
    """Raises UserError if a file that a copy of the run would get is a link out of it."""
    for name in run.model_files:
        if file := run.link_out(name):
            raise UserError(f'{file} is a link out of the run, whose target would be copied; remove it')


def write_copy(run: RunDirectory, out: Path | str, config: Any, params: Any, *, int8: bool = False) -> RunDirectory:
    """Makes `out` a run with the files of another, whose only checkpoint, step 0, has other parameters."""
    made = type(run)(out)
    _check_copy(run, made)
    made.path.mkdir(parents=True, exist_ok=True)
    made.write_config(config)
    for name in run.model_files:
        file = run.path / name
        if file.exists():  # older runs lack some
            copy = shutil.copytree if file.is_dir() else shutil.copy2
            copy(file, made.path / name)
    if is_remembered(run.path):  # a stranger's run stays a stranger's
        remember(made.path, remembered_task_folder(run.path))
    with contextlib.closing(Checkpoints(made.checkpoints)) as written:
        written.save_params(params, int8=int8)
    return made


def _choose(
    run: RunDirectory, checkpoints: CheckpointReader, last: int, best: int, steps: Sequence[int], best_by: str
) -> list[int]:
    there = checkpoints.steps()
    problem = ''
    if steps:
        chosen = sorted(set(steps))
        if missing := [str(step) for step in chosen if step not in there]:
            problem = f'no checkpoint of step {", ".join(missing)}'
    else:
        chosen = there[-last:] if last else checkpoints.best_steps(best)
        if len(chosen) < last + best:
            evaluated = '' if last else f' with a validation {best_by}'
            problem = f'{len(chosen)} checkpoints{evaluated}, not {last + best}'
    if problem:
        raise UserError(
            f'{run.path} has {problem}; its checkpoints: {", ".join(map(str, there)) or "none yet"}; ask for fewer, or '
            'keep more while training (training.keep_last, training.keep_best)'
        )
    return chosen


def load_run(kind: type[RunDirectory], reference: Path | str, *, step: int | None = None) -> Any:
    """The `LoadedRun` that a reference names, with parameters on the first device of this process.

    Without `@which` and `step`: the best checkpoint (training.best_by), or the mean of the newest if
    training.average_last is above 1. `@average` is that mean, or the mean of all kept checkpoints.
    """
    path, which = split_reference(reference)
    run = kind(path)
    config = run.read_config()
    if step is not None:
        if which is not None:
            raise UserError(f'{reference} names a checkpoint, and so does step={step}; expected one of them')
        which = int(step) if str(step).isdecimal() else step
    average_last = config.training.average_last
    if which is None and average_last > 1:
        which = 'average'
    like = shapes_on_one_device(_shapes_of_params(run, config))
    checkpoints = CheckpointReader(run.checkpoints, best_by=config.training.best_by)
    if which == 'average':
        newest = -average_last if average_last > 1 else None
        params, steps = checkpoints.restore_mean(like, lambda: checkpoints.steps()[newest:])
    else:
        params, *steps = checkpoints.restore_params(like, None if which == 'best' else which)
    scores = []
    for averaged in steps:
        with contextlib.suppress(FileNotFoundError):  # training has deleted it meanwhile
            scores.append(checkpoints.metrics(averaged))
    return run.loaded(config, params, scores)


def _shapes_of_params(run: RunDirectory, config: Any) -> Any:
    """What fresh parameters would be like; kept, since tracing a model takes longer than to read a small one."""
    init = run.init_params
    # The name of the file tells when code of this package changes, but not when a user's own task does.
    is_own = init.__module__.startswith('flax_transformer.tasks.')
    file = kept_file('shapes', init.__qualname__, init.__module__, config) if is_own else None
    shapes = file and read_kept(file)
    if shapes is None:
        shapes = jax.eval_shape(partial(init, config), jax.random.key(0))
        if file:
            keep(file, shapes)
    return shapes
