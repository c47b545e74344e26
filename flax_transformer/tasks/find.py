"""Finds the task of a config, a run or a name.

A task is a folder next to this file, with these modules:

config   the class `Config`; its `task` is the folder's name
run      the class `Run`, its run directory
task     `make_trainer(config, devices=None)`
model    `parameter_shapes(config)`
train    `train(config, workdir, ...)`
"""

import importlib
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Any

from flax_transformer import tasks
from flax_transformer.common.config_json import task_of
from flax_transformer.common.errors import UserError, nearest
from flax_transformer.engine.runs.run_directory import CONFIG_FILE, RunDirectory, read_config_text, split_reference


def task_module(task: str, module: str) -> ModuleType:
    """A module of a task, such as task_module('translation', 'train'). Raises UserError if there is no such task."""
    known = [found.name for found in pkgutil.iter_modules(tasks.__path__) if found.ispkg]
    if task not in known:
        raise UserError(f'task={task!r}: expected one of {", ".join(known)}.{nearest(task, known)}')
    return importlib.import_module(f'{tasks.__name__}.{task}.{module}')


def open_run(path: Path | str) -> RunDirectory:
    """An existing run, of any task. Raises UserError if the path is no run directory."""
    text = read_config_text(Path(path))
    try:
        run_class = task_module(task_of(text), 'run').Run
    except UserError as error:
        raise UserError(f'{Path(path) / CONFIG_FILE}: {error}') from None
    return run_class(path)


def read_run_config(reference: Path | str) -> Any:
    """The config of a run, `RUN` or `RUN@which`."""
    return open_run(split_reference(reference)[0]).read_config()
