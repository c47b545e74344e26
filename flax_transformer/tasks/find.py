"""Finds the task of a config, a run or a name.

A task is a folder next to this file, with these modules:

config   the class `Config`; its `task` is the folder's name
run      the class `Run`, its run directory
task     `make_trainer(config, devices=None)`
train    `train(config, workdir, ...)`

and, if the task has these commands, `evaluate` and `corpus_checks` (docs/how-to/tasks.md).
"""

import importlib
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Any

from flax_transformer import tasks
from flax_transformer.common import config_files
from flax_transformer.common.config_json import SCHEMA_VERSION, from_table, split_header, task_of
from flax_transformer.common.config_tables import SUFFIXES, read_table
from flax_transformer.common.errors import UserError, nearest
from flax_transformer.engine.runs.run_directory import CONFIG_FILE, RunDirectory, read_config_text, split_reference

FIRST_TASK = 'translation'  # of configs that name none


def task_names() -> list[str]:
    """The names of all tasks, the first one's first."""
    found = [each.name for each in pkgutil.iter_modules(tasks.__path__) if each.ispkg]
    return sorted(found, key=lambda name: (name != FIRST_TASK, name))


def task_module(task: str, module: str) -> ModuleType:
    """A module of a task, such as task_module('translation', 'train').

    Raises UserError if there is no such task, or if its folder lacks the module.
    """
    known = sorted(task_names())
    if task not in known:
        raise UserError(f'task={task!r}: expected one of {", ".join(known)}.{nearest(task, known)}')
    name = f'{tasks.__name__}.{task}.{module}'
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise UserError(
            f'task={task!r}: its folder has no {module}.py; docs/how-to/tasks.md lists what a task needs'
        ) from None


def load_config(name: str) -> Any:
    """The Config, of any task, of a Python, JSON or YAML file, or of a shipped config's name.

    A table in JSON or YAML names the fields that differ from the defaults, and the task unless it is translation.
    Raises UserError, with file and line, if there is no such file or it is no config.
    """
    path = Path(name)
    if path.suffix not in SUFFIXES or not path.is_file():
        return config_files.load_config(name)
    table = read_table(path)
    try:
        task, values = split_header({'schema_version': SCHEMA_VERSION, 'task': FIRST_TASK, **table.values})
        return from_table(values, task_module(task, 'config').Config)
    except UserError as error:
        line = table.line_of(str(error))
        raise UserError(f'{path}{f", line {line}" if line else ""}: {error}') from None


def open_run(path: Path | str, task: str | None = None) -> RunDirectory:
    """An existing run. Raises UserError if the path is no run directory, or no run of `task`; None: of any task."""
    text = read_config_text(Path(path))
    try:
        found = task_of(text)
        run_class = task_module(found, 'run').Run
    except UserError as error:
        raise UserError(f'{Path(path) / CONFIG_FILE}: {error}') from None
    if task not in (None, found):
        raise UserError(f'{path}: a run of the task {found!r}; expected one of {task!r}')
    return run_class(path)


def read_run_config(reference: Path | str, task: str | None = None) -> Any:
    """The config of a run, `RUN` or `RUN@which`. Raises UserError unless it is of `task`; None: of any task."""
    return open_run(split_reference(reference)[0], task).read_config()
