"""`flax-transformer evaluate RUN [RUN ...] [--field value ...]`: `evaluate` of the task that the runs are of."""

from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.engine.runs.run_directory import find_run, split_reference
from flax_transformer.tasks.recipes import FIRST_TASK, package_recipes, recipe_named, recipe_of_run

from .options import note, parse, positional, progress_bar, read_run_config


def main(argv: list[str]) -> None:
    runs = positional(argv)
    is_file = bool(runs) and Path(runs[0]).is_file()
    if is_file:
        recipe = next(recipe for recipe in package_recipes() if recipe.evaluates_files)
    elif runs:
        recipe = recipe_of_run(find_run(split_reference(runs[0])[0]))
    else:
        recipe = recipe_named(FIRST_TASK)  # --help shows the first
    task = recipe.config.task
    command = recipe.evaluate
    if command is None:
        raise UserError(f'task={task!r}: its recipe has no evaluate; see docs/how-to/tasks.md')
    default = command.options() if is_file else None
    options = parse('evaluate', command.options, argv, command.description, default=default, most=None)
    for run in [] if is_file else runs[1:]:
        read_run_config(run, task)  # raises if it is another task's
    command.run(runs, options, note=note, progress_bar=progress_bar)


def options_of_tasks() -> list[type]:
    """The options of this command for each task, for completion."""
    return [recipe.evaluate.options for recipe in package_recipes()]
