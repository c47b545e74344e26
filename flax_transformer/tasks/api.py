"""What programs call, for any task: configs, training, trained runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from flax_transformer.common import config_files
from flax_transformer.common.config_files import SUFFIXES, read_table
from flax_transformer.common.config_json import SCHEMA_VERSION, from_table, split_header
from flax_transformer.common.errors import UserError
from flax_transformer.engine.config import TaskConfig
from flax_transformer.engine.runs.run_directory import RunDirectory, find_run, split_reference

from .recipes import FIRST_TASK, recipe_named, recipe_of, recipe_of_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    import jax

    from flax_transformer.engine.trainer import Trainer


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
    to them, such as its tokenizer. `processes` check a large corpus of sentence pairs; with more than one, the calling
    program needs `if __name__ == '__main__':`.

    Raises UserError for the user's mistakes, before the first step and, in a new run, before anything is written. At
    SIGTERM or Ctrl-C, saves and raises Interrupted; at a second Ctrl-C, stops at once (`exit_at_second`: by ending the
    process).
    """
    from flax_transformer.cost.chips import peak_flops
    from flax_transformer.engine.launch import launch

    options = {'init_from': init_from, 'processes': processes, 'exit_at_second': exit_at_second}
    return launch(recipe_of(config), config, workdir, **options, peak_flops=peak_flops)


def make_trainer(config: TaskConfig, devices: 'Sequence[jax.Device] | None' = None) -> 'Trainer':
    """The compiled steps of a config, for `devices`, which need not be present; None: those that it asks for."""
    return recipe_of(config).trainer(config, devices)


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
        header, values = split_header({'schema_version': SCHEMA_VERSION, 'task': FIRST_TASK, **table.values})
        return from_table(values, recipe_named(header.task).config)
    except UserError as error:
        line = table.line_of(str(error))
        raise UserError(f'{path}{f", line {line}" if line else ""}: {error}') from None


def run_of(config: TaskConfig, path: Path | str) -> RunDirectory:
    """The run directory of a config's task, which need not exist."""
    return recipe_of(config).run(path)


def open_run(path: Path | str, task: str | None = None) -> RunDirectory:
    """An existing run. Raises UserError if the path is no run directory, or no run of `task`; None: of any task."""
    path = find_run(Path(path))
    recipe = recipe_of_run(path)
    found = recipe.config.task
    if task not in (None, found):
        use = f'; use `flax-transformer {recipe.run.use.format(path)}`' if recipe.run.use else ''
        raise UserError(f'{path}: a run of the task {found!r}; expected a run of {task!r}{use}')
    return recipe.run(path)


def read_run_config(reference: Path | str, task: str | None = None) -> Any:
    """The config of a run, `RUN` or `RUN@which`. Raises UserError unless it is of `task`; None: of any task."""
    return open_run(split_reference(reference)[0], task).read_config()


def load_run(reference: Path | str, *, step: int | None = None) -> Any:
    """A trained run, `RUN` or `RUN@which`, of any task: a named tuple with `config`, `params` and what else it has.

    By default its best checkpoint. Raises UserError if there is none.
    """
    return recipe_of_run(split_reference(reference)[0]).load(reference, step=step)
