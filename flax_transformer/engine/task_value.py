"""A task as a value: all that training and the commands need of it.

A recipe is cheap to import. What it leads to, such as JAX and the model, is imported when a member is called.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .config import TaskConfig
from .runs.run_directory import RunDirectory

if TYPE_CHECKING:
    import jax

    from .batches import Data
    from .devices.devices import Devices
    from .task import Params, Task
    from .trainer import Trainer
    from .validation import Validate


def later(package: str, module: str, name: str) -> Callable[..., Any]:
    """A function of a module that is imported when it is called."""

    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(importlib.import_module(f'{package}.{module}'), name)(*arguments, **options)

    return call


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _unchanged(config: Any, _: Any) -> Any:
    return config


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a task is trained, in the order of `engine.launch`."""

    # The config with what its run has begun with, or now begins with, for fields that leave a choice to the machine.
    begin: 'Callable[[Any, RunDirectory], Any]' = _unchanged
    make_task: 'Callable[[Any, Devices], Task]'  # takes a config, and devices that need not be present
    # Reads all data. `start` is a `LoadedRun` or None; `processes` may check a large corpus.
    prepare: Callable[..., Any] = _nothing  # (config, run, *, start, processes)
    # Writes what the run needs besides its config, in process 0, once all is found to be good.
    keep: Callable[[Any, Any, Any], None] = _nothing  # (run, config, prepared)
    fingerprint: Callable[[Any, Any], str]  # (config, prepared); a hash of the data: a run goes on with no others
    batches: 'Callable[[Any, Any, Trainer], Data]'  # (config, prepared, trainer)
    validation: 'Callable[[Any, Any, Trainer], Validate | None]' = _nothing  # (config, prepared, trainer)
    # Initial parameters of a run that starts from no other; None: fresh ones.
    initial_params: 'Callable[[Any, Any], Params | None]' = _nothing  # (config, prepared)
    # Makes what a trained run has besides parameters, after the last step of a process that trains alone.
    finish: Callable[[Any, Any, Any], None] = _nothing  # (run, config, prepared)


@dataclass(frozen=True)
class EvaluateOptions:
    """The options of `evaluate` that tasks share."""

    step: int | None = None  # the checkpoint; None: the best, or training.average_last's mean
    trust_data: bool = False  # read the test set that the run names, though somebody else may have made the run
    json: bool = False  # print one JSON object instead


class Command(NamedTuple):
    """What a task does at a command, such as `evaluate`."""

    options: type  # a dataclass; its fields are the options, the comments at them the help
    run: Callable[..., Any]
    description: str = ''  # what --help says


class Picture(NamedTuple):
    """What `plot KIND ...` draws."""

    takes: str  # the arguments after KIND: 'RUN LINE', or 'SCORES.json ...' for any number
    draw: Callable[..., Any]  # takes them, and returns a figure of matplotlib
    options: tuple[str, ...] = ()  # those of `plot` that it takes, too


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A task. `recipe.declare` fills in what a task of one's own need not say."""

    config: type[TaskConfig]
    run: type[RunDirectory]
    training: Callable[[], Training]

    taken_over: tuple[str, ...] = ()  # sections of a config that are those of the run to start from (--init-from)
    comes_along: str = 'config'  # what is taken over besides parameters, for messages

    evaluate: Command | None = None  # runs (runs, options, *, note, progress_bar)
    evaluates_files: bool = False  # `evaluate` takes a file instead of a run
    check: Callable[..., Any] | None = None  # (config, workdir, *, processes, progress) returns a `Report`
    # For `new`: runs (file, options), and returns facts about the data and `Candidate`s (tasks/new_config.py), the
    # smallest first.
    propose: Command | None = None
    pictures: Mapping[str, Picture] = field(default_factory=dict)  # the KIND of `plot`: its picture

    def load(self, reference: Path | str, *, step: int | None = None) -> Any:
        from .runs.averaging import load_run

        return load_run(self.run, reference, step=step)

    def trainer(self, config: TaskConfig, devices: 'Sequence[jax.Device] | None' = None) -> 'Trainer':
        """As `tasks.api.make_trainer`."""
        from .devices.devices import Devices
        from .trainer import Trainer

        chosen = Devices(config.parallel, devices)
        return Trainer(self.training().make_task(config, chosen), config.engine, chosen)


def package_recipe(package: str, **members: Any) -> Recipe:
    """The recipe of a task whose package has `training` in training.py and `report_of` in corpus_checks.py."""
    training = later(package, 'training', 'training')
    check = later(package, 'corpus_checks', 'report_of')
    return Recipe(training=training, check=check, **members)
