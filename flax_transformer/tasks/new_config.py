"""What `flax-transformer new` shares among tasks: options, held-out examples, a model that fits the time, its text.

A task has this command if `new_config.py` in its folder, or its one file, has `NewOptions` and `propose`.
"""

import dataclasses
import hashlib
import importlib
import itertools
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import write_whole
from flax_transformer.engine.config import TaskConfig
from flax_transformer.tasks.find import make_trainer

HELD_OUT = 1000  # examples at most
START = 30.0  # seconds of training's start, besides compiling: imports, tokenizing, checks
EVALUATIONS = 10


@dataclass(frozen=True)
class NewOptions:
    """The options of `new` that every task has."""

    task: str = 'translation'  # what to train: a task of the package, or one of your own
    minutes: float | None = None  # how long training may take on this machine; None: an hour
    hours: float | None = None  # the same in hours
    measure: bool = True  # measure this machine, to fit model and steps to the time; takes some half a minute

    @property
    def seconds(self) -> float:
        return 60 * (self.minutes or 60 * (self.hours or 1))


@dataclass(frozen=True)
class DataOptions(NewOptions):
    data: tyro.conf.Positional[str] = ''  # the examples, in any form that data.train of the task may name
    valid: str = ''  # others, to choose the best checkpoint by; empty: some are held out
    test: str = ''  # others, for the final score

    @property
    def given(self) -> str:
        """The name of the data. Raises UserError if there is none."""
        if not self.data:
            raise UserError(f'new --task {self.task}: got no data; name them, as in: new my_config.py DATA')
        return self.data


@dataclass(frozen=True)
class Candidate:
    """A size of the model, for any number of steps."""

    config: Callable[[int], TaskConfig]
    most_steps: int  # more would not help
    passes: float  # over the data, in a step
    least_steps: int = 0  # with fewer, a smaller candidate learns more
    evaluation: float = 1.0  # an evaluation's work, in training steps
    work: float = 1.0  # share of the measured step's work that the data make, where they do not fill it


@dataclass(frozen=True)
class Proposal:
    """What a task proposes for some data."""

    title: str  # what is learned from what: the config's first line
    facts: list[str]  # about the data, and what was held out
    candidates: list[Candidate]  # smallest first
    comments: dict[str, str] = field(default_factory=dict)  # on fields, as 'model.d_model', and on sections


@dataclass(frozen=True)
class Fitted:
    candidate: Candidate
    steps: int
    seconds: float | None  # of a step; None: not measured

    @property
    def config(self) -> TaskConfig:
        return self.candidate.config(self.steps)

    @property
    def total(self) -> float:
        """Seconds of training, evaluations included."""
        return START + self.seconds * (self.steps + EVALUATIONS * self.candidate.evaluation)


def fit(candidates: Sequence[Candidate], *times: float, measure: bool = True) -> list[Fitted]:
    """For each time, in seconds, the largest candidate that is trained for long enough in it, and its steps.

    The smallest candidate's step is measured, then that of the one chosen for the first time; the others' seconds
    follow from their FLOPs. Without `measure`, the largest candidate, for as long as its data need.
    """
    if not measure:
        return [Fitted(candidates[-1], candidates[-1].most_steps, None)]
    from flax_transformer.cost.step_cost import step_time

    known: dict[Candidate, float] = {}  # seconds of a step
    flops: dict[Candidate, float] = {}

    def take(candidate: Candidate) -> None:
        trainer = make_trainer(candidate.config(candidate.most_steps))
        known[candidate] = step_time(trainer).seconds * candidate.work
        flops[candidate] = trainer.task.flops_per_step

    def seconds_of(candidate: Candidate) -> float:
        if candidate in known:
            return known[candidate]
        flops.setdefault(candidate, make_trainer(candidate.config(candidate.most_steps)).task.flops_per_step)
        nearest = max(known, key=flops.get)
        return known[nearest] * flops[candidate] / flops[nearest]

    def choose(time: float) -> Fitted:
        for candidate in reversed(candidates):
            seconds = seconds_of(candidate)
            steps = int((time - START) / seconds - EVALUATIONS * candidate.evaluation)
            if steps >= candidate.least_steps or candidate is candidates[0]:
                return Fitted(candidate, min(max(_rounded(steps), EVALUATIONS), candidate.most_steps), seconds)

    take(candidates[0])
    if (chosen := choose(times[0]).candidate) not in known:
        take(chosen)
    return [choose(time) for time in times]


def from_folder(name: str | Path, folder: Path) -> str:
    """The name of data as a config in `folder` has it: relative if they are in it, else absolute."""
    path = re.split('[?#]', str(name))[0]
    if not path or not os.path.exists(path):  # generated, or a data set by its name
        return str(name)
    whole = os.path.abspath(path)
    return (os.path.relpath(whole, folder) if Path(whole).is_relative_to(folder) else whole) + str(name)[len(path) :]


def loop_fields(steps: int) -> dict[str, int]:
    """Fields of a training section: evaluations, each of which is saved, ten times in all."""
    every = math.ceil(steps / EVALUATIONS)
    return {'steps': steps, 'log_every': min(50, every), 'evaluate_every': every, 'checkpoint_every': every}


def _rounded(number: float) -> int:
    """The number cut to three digits.

    >>> _rounded(6873)
    6870
    """
    unit = 10 ** max(int(math.log10(max(number, 1))) - 2, 0)
    return int(number // unit * unit)


def between(x: float, *points: tuple[float, float], is_log: bool = True) -> float:
    """The value at x of the line through points (x, y), whose x are on a logarithmic scale; y too, if `is_log`.

    >>> round(between(20, (10, 1), (40, 100)), 6)
    10.0
    """
    scale = math.log if is_log else float
    for (low, first), (high, last) in itertools.pairwise(points):
        if x < high:
            part = min(max(math.log(x / low) / math.log(high / low), 0.0), 1.0)
            found = scale(first) + part * (scale(last) - scale(first))
            return math.exp(found) if is_log else found
    return points[-1][1]


def hold_out(keys: Sequence[str], groups: Sequence[str] = ()) -> list[bool]:
    """Whether each example is held out: one in ten, or 20 if that is not more than one in five; at most HELD_OUT.

    Examples of equal key stay together. Each group, such as a label, gives its share. Chosen by a hash of the keys.
    """
    count = min(max(len(keys) // 10, min(20, len(keys) // 5)), HELD_OUT)
    groups = groups or [''] * len(keys)
    chosen: set[tuple[str, str]] = set()
    for group in sorted(set(groups)):
        own = {key for key, its in zip(keys, groups, strict=True) if its == group}
        in_order = sorted(own, key=lambda key: hashlib.sha256(key.encode()).digest())
        chosen |= {(group, key) for key in in_order[: round(count * len(own) / len(keys))]}
    return [pair in chosen for pair in zip(groups, keys, strict=True)]


def write_parts(file: Path, suffix: str, head: str, lines: Sequence[str], is_held_out: Sequence[bool]) -> list[str]:
    """Writes `train` and `valid` into a folder next to the config; returns their names from the config's own folder.

    Raises UserError if there is a file in the way.
    """
    folder = file.with_suffix('.data')
    paths = [folder / f'{part}{suffix}' for part in ('train', 'valid')]
    if taken := [path for path in paths if path.exists()]:
        raise UserError(f'{taken[0]} exists; remove it, or name held-out data with --valid')
    folder.mkdir(parents=True, exist_ok=True)
    for path, side in zip(paths, (False, True), strict=True):
        own = [line for line, is_out in zip(lines, is_held_out, strict=True) if is_out == side]
        write_whole(path, ''.join(f'{line}\n' for line in [*([head] if head else []), *own]))
    return [f'{folder.name}/{path.name}' for path in paths]


def config_text(config: TaskConfig, docstring: str, comments: dict[str, str]) -> str:
    """A config as Python: the fields that differ from the defaults, with comments.

    Paths start at the file's own folder, so that it can be moved with its data.
    """
    public_names = importlib.import_module('flax_transformer.config')  # for users: no module of ours imports from it
    body = list(_section(config, '', comments, 8))
    names: dict[str, set[str]] = {}
    for kind in (type(config), *(type(value) for value in vars(config).values() if dataclasses.is_dataclass(value))):
        if any(f'{kind.__name__}(' in line for line in body) or kind is type(config):
            is_public = getattr(public_names, kind.__name__, None) is kind
            names.setdefault(public_names.__name__ if is_public else kind.__module__, set()).add(kind.__name__)
    here = ['from pathlib import Path', ''] if any('__file__' in line for line in body) else []
    imports = [
        line
        for module, found in sorted(names.items())
        for line in (f'from {module} import (', *(f'    {name},' for name in sorted(found)), ')')
    ]
    quoted = docstring.replace('\\', '\\\\').replace('"', '\\"')
    kind = type(config).__name__
    start = [f'"""{quoted}"""', '', *here, *imports, '', '', f'def get_config() -> {kind}:', f'    return {kind}(']
    return '\n'.join([*start, *body, '    )', ''])


def _section(section: Any, prefix: str, comments: dict[str, str], indent: int) -> Iterator[str]:
    space = ' ' * indent
    shared = [each.name for each in dataclasses.fields(TaskConfig)]  # how to train comes last
    for each in sorted(dataclasses.fields(section), key=lambda each: each.name in shared):
        name, value = f'{prefix}{each.name}', getattr(section, each.name)
        is_default = value == (each.default_factory() if callable(each.default_factory) else each.default)
        if is_default and name not in comments:
            continue
        comment = comments.get(name, '')
        if dataclasses.is_dataclass(value):
            yield from [f'{space}# {comment}'] if comment else []
            yield f'{space}{each.name}={type(value).__name__}('
            yield from _section(value, f'{name}.', comments, indent + 4)
            yield f'{space}),'
        else:
            shown = 'str(Path(__file__).resolve().parent)' if name == 'data.root' else repr(value)
            yield f'{space}{each.name}={shown},{f"  # {comment}" if comment else ""}'
