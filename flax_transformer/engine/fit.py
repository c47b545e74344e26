"""Steps that make `training.epochs` passes over the data, or take `training.minutes` on these devices."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

from flax_transformer.common.errors import UserError

from .config import TaskConfig
from .runs.finished import steps_of
from .runs.run_directory import RunDirectory

if TYPE_CHECKING:
    from .trainer import Trainer

_MEASURED = 5  # steps
_FEWEST = 20  # batches that are counted


def as_begun(config: TaskConfig, run: RunDirectory) -> tuple[TaskConfig, bool]:
    """The config with the steps that its run has been given; and whether steps are to be fitted now."""
    asked = config.training.epochs, config.training.minutes
    if any(asked) and run.exists() and steps_of(run.checkpoints):
        known = run.read_config().training
        if (known.epochs, known.minutes) == asked:
            return _with_steps(config, known.steps), False
    return config, any(asked)


def fitted(
    config: TaskConfig, trainer: 'Trainer', data: Any, validate: Callable[..., Any] | None, *, began: float
) -> TaskConfig:
    """The config with steps for its epochs or minutes, these counted from `began`, by time.perf_counter."""
    from .devices import multihost

    if config.training.epochs:
        steps = config.training.epochs / _epochs_per_step(data)
    else:
        steps = _steps_in(60 * config.training.minutes, trainer, data, validate, began)
    steps = int(multihost.broadcast('the number of steps', str(max(round(steps), 1))))
    multihost.say(
        f'{steps:,} step{"s" * (steps != 1)} fit training.{config.training.length_unit}'
        + ('' if steps > 1 or config.training.epochs else ': getting ready took the time; give more')
    )
    return _with_steps(config, steps)


def _with_steps(config: TaskConfig, steps: int) -> TaskConfig:
    return replace(config, training=replace(config.training, steps=steps))


def _epochs_per_step(data: Any) -> float:
    with contextlib.closing(iter(data)) as batches:
        for number in count(1):
            next(batches)
            passes = data.epoch(batches.get_state())
            if passes is None:
                raise UserError(f'training.epochs: {data.name} has no end to count by; expected training.steps')
            if passes and number >= _FEWEST:
                return passes / number


def _steps_in(seconds: float, trainer: 'Trainer', data: Any, validate: Any, began: float) -> float:
    """Measures a few steps and two evaluations; the first of each compiles, as the first step of training will."""
    import jax

    from .monitor.reporter import NoReporter

    def timed(run: Callable[..., Any], *arguments: Any) -> float:
        start = time.perf_counter()
        jax.block_until_ready(run(*arguments))
        return time.perf_counter() - start

    state = trainer.init_state()
    batches = iter(data)

    def step() -> Any:
        nonlocal state
        state, sums = trainer.step(state, next(batches))
        return sums

    with contextlib.closing(batches):
        compiling, *steps = [timed(step) for _ in range(1 + _MEASURED)]
    evaluation = 0.0
    if validate:
        for number in (-2, -1):  # processes share the scores of each step once
            evaluation = timed(validate, state._replace(step=number), NoReporter())

    left = seconds - (time.perf_counter() - began) - compiling
    usual = sorted(steps)[_MEASURED // 2] + evaluation / trainer.config.training.evaluate_every
    return (left - evaluation) / usual  # there is one after the last step, too
