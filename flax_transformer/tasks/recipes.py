"""The recipe of a config, of a run, or of a task's name."""

import importlib
import sys
from itertools import chain
from pathlib import Path
from types import ModuleType

from flax_transformer.common.config_json import Header, header_of
from flax_transformer.common.errors import UserError, nearest
from flax_transformer.engine.config import TaskConfig
from flax_transformer.engine.runs.run_directory import CONFIG_FILE, read_config_text
from flax_transformer.engine.runs.task_module import VARIABLE, import_from, named_modules
from flax_transformer.engine.runs.trust import remembered_task_folder
from flax_transformer.engine.task_value import Recipe

# The tasks of the package; the first is that of a config in JSON or YAML that names none.
PACKAGE_TASKS = ('translation', 'classification', 'embeddings', 'speech', 'trigger_word')
FIRST_TASK = PACKAGE_TASKS[0]
_ALSO_CALLED = {'word_vectors': 'embeddings'}  # the documents' names


def package_recipes() -> list[Recipe]:
    return [recipe_named(task) for task in PACKAGE_TASKS]


def recipe_of(config: TaskConfig) -> Recipe:
    """The recipe of a config. Raises UserError if there is none for its class."""
    if config.task not in PACKAGE_TASKS and isinstance(config, TaskConfig):
        module = importlib.import_module(config.declared_in())
        recipe = getattr(module, 'RECIPE', None)
        if not isinstance(recipe, Recipe):
            raise UserError(
                f'task={config.task!r}: the module {module.__name__} has no RECIPE; set RECIPE = declare(...) there, '
                f'or name the module that has it in {type(config).__qualname__}.recipe_module'
            )
    else:
        recipe = recipe_named(config.task)
    if not isinstance(config, recipe.config):
        expected = f'{recipe.config.__module__}.{recipe.config.__qualname__}'
        raise UserError(f'got a {type(config).__qualname__} of the task {config.task!r}, expected a {expected}')
    return recipe


def recipe_named(task: str) -> Recipe:
    """The recipe of a task, which may be written with hyphens.

    Raises UserError if it is neither in the package nor in a module that the user names in the environment.
    """
    task = task.replace('-', '_')
    return _recipe(Header(_ALSO_CALLED.get(task, task)), None)


def recipe_of_run(path: Path) -> Recipe:
    """The recipe of a run. Raises UserError if there is no run, or if its task is unknown or not to be trusted."""
    text = read_config_text(path)
    try:
        return _recipe(header_of(text), path)
    except UserError as error:
        raise UserError(f'{path / CONFIG_FILE}: {error}') from None


def _recipe(header: Header, run: Path | None) -> Recipe:
    task, module = header
    if task in PACKAGE_TASKS:
        return importlib.import_module(f'{__package__}.{task}.recipe').RECIPE
    in_use = [sys.modules[module]] if module in sys.modules else []
    for known in chain(in_use, named_modules(run)):
        if recipe := _declared(known, task):
            return recipe
    if run is not None and module is not None:
        folder = remembered_task_folder(run)
        if folder is not None and (recipe := _declared(import_from(folder, module), task)):
            return recipe
        raise UserError(
            f'its task {task!r} is in the module {module!r}, which is imported only for a run that you trained here. '
            f'If the module is yours, or you trust it: set {VARIABLE}={module}, with its folder in $PYTHONPATH'
        )
    known = sorted(PACKAGE_TASKS)
    raise UserError(
        f'task={task!r}: expected one of {", ".join(known)}.{nearest(task, known)} '
        f'For a task of your own, set {VARIABLE} to its module'
    )


def _declared(module: ModuleType, task: str) -> Recipe | None:
    recipe = getattr(module, 'RECIPE', None)
    return recipe if isinstance(recipe, Recipe) and recipe.config.task == task else None
