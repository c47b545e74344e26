"""What `flax-transformer new` shares among tasks: options, held-out examples, a model that fits the time.

A task has this command if `new_config.py` in its folder, or its one file, has `NewOptions` and `propose`.
"""

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from flax_transformer.common.config_files import load_config
from flax_transformer.common.config_json import flat_fields
from flax_transformer.common.errors import UserError
from flax_transformer.common.files import write_whole
from flax_transformer.engine.config import TaskConfig
from flax_transformer.tasks.find import make_trainer

HELD_OUT = 1000  # examples at most
EVALUATIONS = 10
_LIMITED = (*(f'training.{what}_every' for what in ('log', 'evaluate', 'checkpoint')), 'optimizer.warmup_steps')
START = 45.0  # seconds of training's start: imports, tokenizing, checks, compiling


@dataclass(frozen=True)
class NewOptions:
    """The options of `new` that every task has."""

    task: str = 'translation'  # what to train: a task of the package, or one of your own
    minutes: float | None = None  # how long training may take on this machine; None: an hour
    hours: float | None = None  # the same in hours
    measure: bool = True  # measure this machine, to fit model and steps to the time; takes about half a minute


@dataclass(frozen=True)
class DataOptions(NewOptions):
    data: tyro.conf.Positional[str] = ''  # the examples, in any form that data.train of the task may have
    valid: str = ''  # others, to choose the best checkpoint by; empty: some are held out
    test: str = ''  # others, for the final score


@dataclass(frozen=True)
class Candidate:
    """A size of the model."""

    base: TaskConfig
    steps: int  # what measurements say helps; `fit` changes them
    passes_of_a_step: float  # fraction of a pass over the data
    more: float = 1  # factor on `steps` up to which more may still help
    least_steps: int = 0  # a smaller candidate learns more where fewer fit
    evaluation: float = 1.0  # an evaluation's work, in training steps
    work: float = 1.0  # share of the measured step's work, where data do not fill a batch
    adapted: Callable[[float], dict[str, Any]] = lambda passes: {}  # fields that depend on the passes in all
    seconds: float | None = None  # a step's time; None: not measured

    @classmethod
    def like(cls, shipped: str, fields: dict[str, Any], *rest: Any, **others: Any) -> 'Candidate':
        """A shipped config with other values for some fields."""
        return cls(changed(load_config(shipped), fields), *rest, **others)

    @property
    def config(self) -> TaskConfig:
        """Trains its steps: at most a tenth of them warm up, or pass between evaluations and saves."""
        known, tenth = flat_fields(self.base), -(-self.steps // EVALUATIONS)
        loop = {name: min(known[name], tenth) for name in _LIMITED if name in known}
        return changed(self.base, {'training.steps': self.steps} | loop | self.adapted(self.passes))

    @property
    def passes(self) -> float:
        """Over the data, in all."""
        return self.steps * self.passes_of_a_step

    @property
    def total(self) -> float:
        """Seconds of training, evaluations included."""
        return START + self.seconds * (self.steps + EVALUATIONS * self.evaluation)


# Facts about the data (the first: what is learned from what) and candidates, smallest first.
Proposal = tuple[list[str], list[Candidate]]


def fit(candidates: Sequence[Candidate], *times: float) -> list[Candidate]:
    """For each time, in seconds, the largest candidate that has its least steps in it, with its steps.

    The smallest candidate's step is measured, and that of the one chosen for the first time; what others take follows
    from their FLOPs.
    """
    from flax_transformer.cost.step_cost import step_seconds

    trainers = [make_trainer(each.base) for each in candidates]
    flops = [trainer.task.flops_per_step or 1.0 for trainer in trainers]
    measured = {0: step_seconds(trainers[0]) * candidates[0].work}

    def choose(time: float) -> int:
        """The number of a candidate."""
        return next(
            (i for i in reversed(range(len(candidates))) if within(time, i).steps >= candidates[i].least_steps), 0
        )

    def within(time: float, i: int) -> Candidate:
        nearest = i if i in measured else max(measured)
        seconds, each = measured[nearest] * flops[i] / flops[nearest], candidates[i]
        steps = (time - START) / seconds - EVALUATIONS * each.evaluation
        return replace(each, steps=min(max(int(steps), EVALUATIONS), round(each.more * each.steps)), seconds=seconds)

    if (i := choose(times[0])) not in measured:
        measured[i] = step_seconds(trainers[i]) * candidates[i].work
    return [within(time, choose(time)) for time in times]


def changed(config: TaskConfig, fields: dict[str, Any]) -> TaskConfig:
    """The config with other values for some fields, such as 'training.steps'."""
    sections: dict[str, dict[str, Any]] = {}
    for name, value in fields.items():
        section, _, field = name.partition('.')
        sections.setdefault(section, {})[field] = value
    return replace(config, **{name: replace(getattr(config, name), **own) for name, own in sections.items()})


def from_folder(name: str | Path, folder: Path) -> str:
    """The name of data as a config in `folder` has it: relative if they are in it, else absolute."""
    path = re.split('[?#]', str(name))[0]
    if not path or not os.path.exists(path):  # generated, or a data set by its name
        return str(name)
    whole = os.path.abspath(path)
    return (os.path.relpath(whole, folder) if Path(whole).is_relative_to(folder) else whole) + str(name)[len(path) :]


def between(x: float, *points: tuple[float, float]) -> float:
    """The value at x of the line through points (x, y), both on a logarithmic scale.

    >>> round(between(20, (10, 1), (40, 100)), 6)
    10.0
    """
    return float(np.exp(np.interp(np.log(x), *np.log(points).T)))


def parts(
    file: Path,
    options: DataOptions,
    suffix: str,
    lines: Sequence[str],
    *,
    keys: Sequence[str],
    groups: Sequence[str] = (),
    head: str = '',
) -> tuple[dict[str, str], str]:
    """The fields of the section data, and a remark on the lines that were held out, unless --valid names others.

    Raises UserError if there is a file in the way.
    """
    root, remark = file.absolute().parent, ''
    train, valid = (from_folder(name, root) for name in (options.data, options.valid))
    if not options.valid:
        folder, is_held_out = file.with_suffix('.data'), held_out(keys, groups)
        train, valid = (f'{folder.name}/{part}{suffix}' for part in ('train', 'valid'))
        if taken := [name for name in (train, valid) if (root / name).exists()]:
            raise UserError(f'{root / taken[0]} exists; remove it, or name held-out data with --valid')
        if not any(is_held_out):
            raise UserError(
                f'{options.data}: got {len({*keys})} different examples, too few to hold some out; give --valid'
            )
        folder.mkdir(exist_ok=True)
        for name, is_valid in ((train, False), (valid, True)):
            own = [line for line, is_out in zip(lines, is_held_out, strict=True) if is_out == is_valid]
            write_whole(root / name, ''.join(f'{line}\n' for line in [*([head] if head else []), *own]))
        remark = f'; {sum(is_held_out):,} are held out in {folder}'
    test = from_folder(options.test, root)
    return {'data.train': train, 'data.validation': valid, 'data.test': test, 'data.root': str(root)}, remark


def held_out(keys: Sequence[str], groups: Sequence[str] = ()) -> list[bool]:
    """Whether each example is held out: one key in ten, or 20 if that is at most one in five; at most HELD_OUT keys.

    Examples of equal key stay together, and each group, such as a label, gives its share. Chosen by a hash of the keys.
    """
    group_of = dict(zip(keys, groups or keys, strict=True))
    count = min(max(len(group_of) // 10, min(20, len(group_of) // 5)), HELD_OUT)
    order = sorted(group_of, key=lambda key: (groups and group_of[key], hashlib.sha256(key.encode()).digest()))
    chosen = {order[int((i + 0.5) * len(order) / count)] for i in range(count)}
    return [key in chosen for key in keys]
