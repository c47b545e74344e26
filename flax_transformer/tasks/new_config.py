"""What `flax-transformer new` shares among tasks: options, held-out examples, a model that fits the time."""

import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tyro

from flax_transformer.common.config_files import load_config
from flax_transformer.common.config_json import flat_fields
from flax_transformer.common.errors import UserError
from flax_transformer.data.repeats import keys_of
from flax_transformer.engine.config import TaskConfig

from .api import make_trainer

if TYPE_CHECKING:
    from flax_transformer.data.audio.manifest import Utterance

HELD_OUT = 1000  # examples at most
EVALUATIONS = 10
_LIMITED = ('training.log_every', 'training.evaluate_every', 'training.checkpoint_every', 'optimizer.warmup_steps')


@dataclass(frozen=True)
class NewOptions:
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
    start: TaskConfig | None = None  # a run's, whose parameters it begins with
    # What `fit` adds: a step's time, the time to train in, and the steps that more of it would not help beyond.
    seconds: float | None = None
    minutes: float = 0.0
    most: int = 0

    @classmethod
    def like(cls, shipped: str, fields: dict[str, Any], *rest: Any, **others: Any) -> 'Candidate':
        return cls(changed(load_config(shipped), fields), *rest, **others)

    @property
    def config(self) -> TaskConfig:
        """At most a tenth of the steps warm up, or pass between evaluations and saves."""
        known = flat_fields(self.base)
        tenth = math.ceil(self.steps / EVALUATIONS)
        limited = {name: min(known[name], tenth) for name in _LIMITED if name in known}
        timed = {'training.minutes': self.minutes, 'training.max_steps': self.most} if self.minutes else {}
        return changed(self.base, {'training.steps': self.steps, **timed, **limited, **self.adapted(self.passes)})

    @property
    def passes(self) -> float:
        """Over the data, in all."""
        return self.steps * self.passes_of_a_step

    @property
    def total(self) -> float:
        """Seconds of training from its first step on, evaluations included."""
        return self.seconds * (self.steps + EVALUATIONS * self.evaluation)


# Facts about the data (the first: what is learned from what) and candidates, smallest first.
Proposal = tuple[list[str], list[Candidate]]


def fit(candidates: Sequence[Candidate], *times: float) -> list[Candidate]:
    """For each time, in seconds, the largest candidate that has its least steps in it, with its steps.

    Measured are a step of the smallest, and of the one chosen for the first time; others follow from their FLOPs.
    """
    from flax_transformer.cost.step_cost import step_seconds

    trainers = [make_trainer(candidate.base) for candidate in candidates]
    flops = [trainer.task.flops_per_step or 1.0 for trainer in trainers]
    measured = {0: step_seconds(trainers[0]) * candidates[0].work}  # seconds of a step

    def within(time: float, number: int) -> Candidate:
        candidate = candidates[number]
        nearest = number if number in measured else max(measured)
        seconds = measured[nearest] * flops[number] / flops[nearest]
        steps = int(time / seconds - EVALUATIONS * candidate.evaluation)
        most = round(candidate.more * candidate.steps)
        steps = min(max(steps, EVALUATIONS), most)
        return replace(candidate, steps=steps, seconds=seconds, minutes=time / 60, most=most)

    def largest(time: float) -> int:
        fitting = (i for i, candidate in enumerate(candidates) if within(time, i).steps >= candidate.least_steps)
        return max(fitting, default=0)

    if chosen := largest(times[0]):
        measured[chosen] = step_seconds(trainers[chosen]) * candidates[chosen].work
    return [within(time, largest(time)) for time in times]


def changed(config: TaskConfig, fields: dict[str, Any]) -> TaskConfig:
    """The config with other values for fields such as 'training.steps'."""
    sections: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, value in fields.items():
        section, _, field = name.partition('.')
        sections[section][field] = value
    return replace(config, **{name: replace(getattr(config, name), **own) for name, own in sections.items()})


def from_folder(name: str | Path, folder: Path) -> str:
    """The name of data as a config in `folder` has it: relative to it if they are inside."""
    name = str(name)
    path = re.split('[?#]', name)[0]
    if not path or not os.path.exists(path):  # generated, or a data set by its name
        return name
    absolute = Path(os.path.abspath(path))
    if absolute.is_relative_to(folder):
        absolute = absolute.relative_to(folder)
    return f'{absolute}{name[len(path) :]}'


def between(x: float, *points: tuple[float, float]) -> float:
    """The value at x of the line through points (x, y), both on a logarithmic scale.

    >>> round(between(20, (10, 1), (40, 100)), 6)
    10.0
    """
    return float(np.exp(np.interp(np.log(x), *np.log(points).T)))


def data_fields(file: Path, options: DataOptions, examples: Iterable[str]) -> tuple[dict[str, Any], str]:
    """The fields of the section data, and a remark on what is held out of `examples`."""
    root = file.absolute().parent
    names = {'train': options.data, 'validation': options.valid, 'test': options.test}
    fields = {f'data.{name}': from_folder(value, root) for name, value in names.items()} | {'data.root': str(root)}
    if options.valid:
        return fields, ''
    different = len(np.unique(keys_of(examples)))
    held_out = min(max(different // 10, min(20, different // 5)), HELD_OUT)
    if not held_out:
        raise UserError(f'{options.data}: got {different} different examples, too few to hold some out; give --valid')
    return fields | {'data.held_out': held_out}, f'; {held_out:,} are held out for validation'


def recording_fields(file: Path, options: DataOptions, recordings: 'Sequence[Utterance]') -> tuple[dict[str, Any], str]:
    """The fields of a config about recordings, and a remark on those held out."""
    fields, remark = data_fields(file, options, [recording.source.name for recording in recordings])
    rate, _ = Counter(recording.rate for recording in recordings).most_common(1)[0]
    return fields | {'features.sample_rate': min(rate, 16_000)}, remark
