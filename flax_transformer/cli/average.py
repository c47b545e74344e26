"""The command `average`."""

import shlex
from dataclasses import dataclass
from pathlib import Path

import tyro

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.api import open_run

from .options import parse, print_next, trainer_on_one_device
from .train import evaluate_command


@dataclass(frozen=True)
class AverageOptions:
    """Make a run directory, OUT, whose parameters are the mean of several checkpoints of a run.

    Like any other, it can be translated with, evaluated, exported, and used to start training from (--init-from).
    """

    out: tyro.conf.Positional[Path | None] = None  # the run directory to make
    last: int = 0  # average this many of the newest checkpoints
    best: int = 0  # or this many of the best, by the run's training.best_by
    steps: str = ''  # or those of given steps, such as 1000,2000
    int8: bool = False  # keep matrices in eight bits: a quarter of the size, nearly the same translations


def main(argv: list[str]) -> None:
    options = parse('average', AverageOptions, argv)
    if options.out is None:
        raise UserError(f'average: got {argv[0]} alone, expected RUN and OUT')
    steps = options.steps.split(',') if options.steps else []
    if not all(step.strip().isdecimal() for step in steps):
        raise UserError(f'--steps {options.steps}: expected steps separated by commas, such as 1000,2000')

    from absl import logging

    from flax_transformer.engine.runs.averaging import average

    logging.set_verbosity(logging.FATAL)  # Orbax warns about checkpoints of earlier versions
    run = open_run(argv[0])
    shapes = trainer_on_one_device(run.read_config()).shapes.params
    which = {'last': options.last, 'best': options.best, 'steps': [int(step) for step in steps]}
    run, chosen = average(run, options.out, shapes, int8=options.int8, **which)
    following = [evaluate_command(run.read_config(), run.path)] if run.use else []
    following.append(f'flax-transformer train CONFIG --init-from {shlex.quote(str(run.path))} --workdir ANOTHER')
    print_next(f'The mean of the checkpoints {", ".join(map(str, chosen))} is in {run.path}', *following)
