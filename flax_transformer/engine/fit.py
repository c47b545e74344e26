"""Steps that make `training.epochs` passes over the data, or that a training of `training.minutes` begins with."""

import contextlib
from dataclasses import replace
from itertools import count
from typing import Any

from flax_transformer.common.errors import UserError

from .clock import FIRST_LOOK
from .config import TaskConfig
from .runs.finished import steps_of
from .runs.run_directory import RunDirectory

_FEWEST = 20  # batches that are counted


def as_begun(config: TaskConfig, run: RunDirectory) -> tuple[TaskConfig, bool]:
    """The config with the steps that its run has been given; and whether steps are to be fitted to epochs now."""
    training = config.training
    if not training.epochs and not training.minutes:
        return config, False
    done = max(steps_of(run.checkpoints), default=0)
    if run.exists() and done:
        known = run.read_config().training
        if all(getattr(known, name) == getattr(training, name) for name in ('epochs', 'minutes', 'max_steps')):
            return _with_steps(config, known.steps), False
    if training.epochs:
        return config, True
    planned = max(training.steps, done + FIRST_LOOK)  # the clock changes them
    return _with_steps(config, min(planned, training.max_steps or planned)), False


def fitted(config: TaskConfig, data: Any) -> TaskConfig:
    from .devices import multihost

    counted = config.training.epochs / _epochs_per_step(data)
    steps = int(multihost.broadcast('the number of steps', str(max(round(counted), 1))))
    multihost.say(f'{steps:,} step{"s" * (steps != 1)} fit training.epochs')
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
