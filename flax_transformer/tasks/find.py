"""Finds the task of a config, a run or a name, and trains it.

A task is a folder next to this file, or one of your own, in a module that your config file imports. In a folder, each
of these parts has a file of its own; a task of your own may have all in one file:

config         a TaskConfig; its `task` is the folder's name
recipe         `RECIPE`, all that training needs
run            the class `Run`, its run directory; a task of your own names its in the recipe

and, if the task has these commands, `evaluate`, `corpus_checks` and `new_config` (docs/how-to/tasks.md).
"""

import importlib
import os
import pkgutil
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from flax_transformer import tasks
from flax_transformer.common import config_files
from flax_transformer.common.config_files import SUFFIXES, read_table
from flax_transformer.common.config_json import SCHEMA_VERSION, from_table, split_header, task_of
from flax_transformer.common.errors import UserError, nearest
from flax_transformer.engine.config import TaskConfig
from flax_transformer.engine.runs.run_directory import CONFIG_FILE, RunDirectory, read_config_text, split_reference
from flax_transformer.engine.runs.shipped import find_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    import jax

    from flax_transformer.engine.recipe import Recipe
    from flax_transformer.engine.trainer import Trainer

FIRST_TASK = 'translation'  # the task of a config in JSON or YAML that names none
MODULES_VARIABLE = 'FLAX_TRANSFORMER_TASKS'  # names modules with tasks of your own, separated by commas
_MAIN_NAMES = {'recipe': 'RECIPE', 'evaluate': 'evaluate', 'corpus_checks': 'report_of', 'new_config': 'propose'}


def train(
    config: TaskConfig,
    workdir: Path | str,
    *,
    init_from: Path | str | None = None,
    processes: int = 1,
    exit_at_second: bool = False,
) -> RunDirectory:
    """Trains the config's model, of any task, in the run directory `workdir`, or resumes the run there.

    A new run may start from the parameters of another run of the same model, `init_from`, and takes over what belongs
    to them, such as its tokenizer. `processes` check a large corpus of sentence pairs before it is tokenized; with more
    than one, the calling program needs `if __name__ == '__main__':`.

    Raises UserError for the user's mistakes, before the first step and, in a new run, before anything is written. At
    SIGTERM or Ctrl-C, saves and raises Interrupted; at a second Ctrl-C, stops at once (`exit_at_second`: by ending the
    process).
    """
    from flax_transformer.cost.chips import peak_flops
    from flax_transformer.engine import launch

    recipe = recipe_named(config.task)
    if not isinstance(config, recipe.config):
        expected = f'{recipe.config.__module__}.{recipe.config.__qualname__}'
        raise UserError(f'config: got a {type(config).__qualname__}, expected a {expected}')
    return launch.train(
        recipe,
        config,
        workdir,
        init_from=init_from,
        processes=processes,
        exit_at_second=exit_at_second,
        peak_flops=peak_flops,
    )


def make_trainer(config: TaskConfig, devices: 'Sequence[jax.Device] | None' = None) -> 'Trainer':
    """The compiled steps of a config, for `devices`, which need not be present; None: those that it asks for."""
    return recipe_named(config.task).trainer(config, devices)


def task_names() -> list[str]:
    found = [each.name for each in pkgutil.iter_modules(tasks.__path__) if each.ispkg]
    return sorted(found, key=lambda name: (name != FIRST_TASK, name))


def task_called(name: str) -> str:
    """The name of a task, which may be written with hyphens, or as the documents call it."""
    name = name.replace('-', '_')
    return {'word_vectors': 'embeddings'}.get(name, name)


def config_class(task: str) -> type[TaskConfig]:
    """The Config of a task. Raises UserError if there is no such task."""
    if task in task_names():
        module = importlib.import_module(f'{tasks.__name__}.{task}.config')
        return next(kind for kind in _configs() if (kind.task, kind.__module__) == (task, module.__name__))
    own = {kind.task: kind for kind in _configs()}
    if task not in own and (modules := os.environ.get(MODULES_VARIABLE)):
        for name in modules.split(','):
            _import(name)
        own = {kind.task: kind for kind in _configs()}
    if not isinstance(task, str) or task not in own:
        known = sorted(task_names())
        raise UserError(
            f'task={task!r}: expected one of {", ".join(known)}.{nearest(str(task), known)} '
            f'For a task of your own, set {MODULES_VARIABLE} to its module'
        )
    return own[task]


def _configs() -> list[type[TaskConfig]]:
    """The configs of all tasks that are imported; one may inherit from another's."""
    found, derived = [], TaskConfig.__subclasses__()
    while derived:
        found += [kind for kind in derived if 'task' in vars(kind)]
        derived = [each for kind in derived for each in kind.__subclasses__()]
    return found


def _import(name: str) -> None:
    """Imports a module of $FLAX_TRANSFORMER_TASKS, which may be in the current folder."""
    before = list(sys.path)
    sys.path.append(os.getcwd())  # last: what is installed comes first
    try:
        importlib.import_module(name)
    except ImportError as error:
        raise UserError(f'${MODULES_VARIABLE} names {name!r}: {error}; is its folder in $PYTHONPATH?') from None
    finally:
        sys.path[:] = before


def recipe_named(task: str) -> 'Recipe':
    """The recipe of a task. Raises UserError if there is no such task."""
    return task_module(task, 'recipe').RECIPE


def task_module(task: str, part: str) -> ModuleType:
    """A task's module, such as task_module('translation', 'evaluate'). Raises UserError if there is none."""
    module = sys.modules[config_class(task).__module__]
    package, _, file = module.__name__.rpartition('.')
    if file != 'config':  # a task in one file
        if not hasattr(module, _MAIN_NAMES[part]):
            raise _lacks(task, f'{_MAIN_NAMES[part]} in {module.__name__}')
        return module
    name = f'{package}.{part}'
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise _lacks(task, f'{part}.py') from None


def run_of(config: TaskConfig, path: Path | str) -> RunDirectory:
    """The run directory of a config's task, which need not exist."""
    return _run_class(config.task)(path)


def _run_class(task: str) -> type[RunDirectory]:
    # A recipe imports all that training needs, and a folder's Run little.
    return task_module(task, 'run').Run if task in task_names() else recipe_named(task).run


def _lacks(task: str, what: str) -> UserError:
    return UserError(f'task={task!r}: it has no {what}; docs/how-to/tasks.md lists what a task needs')


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
        return from_table(values, config_class(task))
    except UserError as error:
        line = table.line_of(str(error))
        raise UserError(f'{path}{f", line {line}" if line else ""}: {error}') from None


def open_run(path: Path | str, task: str | None = None) -> RunDirectory:
    """An existing run. Raises UserError if the path is no run directory, or no run of `task`; None: of any task."""
    path = find_run(Path(path))
    text = read_config_text(path)
    try:
        found = task_of(text)
        run_class = _run_class(found)
    except UserError as error:
        raise UserError(f'{path / CONFIG_FILE}: {error}') from None
    if task not in (None, found):
        use = f'; use `flax-transformer {run_class.use.format(path)}`' if run_class.use else ''
        raise UserError(f'{path}: a run of the task {found!r}; expected a run of {task!r}{use}')
    return run_class(path)


def read_run_config(reference: Path | str, task: str | None = None) -> Any:
    """The config of a run, `RUN` or `RUN@which`. Raises UserError unless it is of `task`; None: of any task."""
    return open_run(split_reference(reference)[0], task).read_config()
