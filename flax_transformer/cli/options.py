"""Command-line options from dataclasses, by tyro; the first positional argument is the config or run."""

import dataclasses
import inspect
import itertools
import typing
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro
from tqdm import tqdm

from flax_transformer.common.errors import UserError
from flax_transformer.common.memory import pass_over_imports
from flax_transformer.common.quiet import is_quiet, say, shows_progress
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.engine.config import ParallelConfig
from flax_transformer.engine.runs.run_directory import split_reference
from flax_transformer.tasks.api import load_config, make_trainer, read_run_config
from flax_transformer.tasks.recipes import FIRST_TASK, recipe_named, recipe_of

from .help import SHORT, short_help, wants_help

if TYPE_CHECKING:
    from flax_transformer.engine.trainer import Trainer
    from flax_transformer.tasks.translation.inference.translator import Translator

T = typing.TypeVar('T')
C = typing.TypeVar('C')  # a task's config; options generic in it serve any task


@dataclasses.dataclass(frozen=True)
class OfCheckpoint:
    # The checkpoint, which RUN@12000, RUN@last, RUN@best and RUN@average name too; None: the best, or
    # training.average_last's mean.
    step: int | None = None


@dataclasses.dataclass(frozen=True)
class ToTranslate:
    decoding: DecodingConfig = dataclasses.field(default_factory=DecodingConfig)
    parallel: ParallelConfig = dataclasses.field(default_factory=ParallelConfig)


def parse(
    command: str,
    options: type[T],
    argv: list[str],
    description: str | None = None,
    *,
    first: str = 'RUN',
    task: str | None = None,
    default: T | Callable[[str], T] | None = None,
    most: int | None = 1,
) -> T:
    """The options of a command, parsed from its positional arguments, at most `most`, and the fields that follow.

    Args:
      options: a dataclass, perhaps generic in the class of its field `config`.
      description: None: the dataclass's docstring.
      first: what messages call the first argument.
      task: the task of the run that is the first argument; None: any.
      default: the defaults, or what makes them from the first argument: `CONFIG --help` shows the values of that
        config. None: they have the config of the first argument, or the data and decoding of that run.
    """
    prog = f'flax-transformer {command} {first}'
    given = positional(argv)
    asked = wants_help(argv)
    description = (description or inspect.getdoc(options)).replace('\n\n', '\n', 1)  # the summary is part of the text
    values = None
    rest = []
    if given:
        rest = list(map(_in_full, argv[len(given[:most]) :]))
        values = default(given[0]) if callable(default) else default or _defaults(options, given[0], task)
    elif not asked:
        got = f'got {argv[0]!r}' if argv else 'got nothing'
        raise UserError(f'{command}: {got}, expected {first} first: {prog} [--field value ...]')
    if getattr(options, '__parameters__', ()):
        options = options[recipe_named(FIRST_TASK).config if values is None else type(values.config)]
    if asked == 'short':
        print(short_help(prog, description, options, values))
        raise SystemExit(0)
    if asked:
        rest = ['--help']
    # A section of several classes keeps that of the config given.
    settings = {} if values is None else {'default': values}
    conf = (tyro.conf.AvoidSubcommands,)
    return tyro.cli(options, prog=prog, description=description, args=rest, config=conf, **settings)


def _in_full(arg: str) -> str:
    name, equals, value = arg.partition('=')
    return f'--{SHORT[name]}{equals}{value}' if name in SHORT else arg


def _defaults(options: type[T], first: str, task: str | None) -> T:
    """The options with a config, or with a run's sections except for its devices: this may be another machine."""
    names = {field.name for field in dataclasses.fields(options)}
    if 'config' in names:
        return options(config=read_config(first, task))
    config = read_run_config(first, task)
    return options(**{name: getattr(config, name) for name in names & {'data', 'strings', 'decoding'}})


def positional(argv: list[str]) -> list[str]:
    """The arguments before the first option; `-`, standard input, is none."""
    return list(itertools.takewhile(lambda arg: arg == '-' or not arg.startswith('-'), argv))


def value_of(option: str, argv: list[str]) -> str | None:
    """The value of an option that decides which others there are."""
    for given, value in itertools.pairwise([*argv, '']):
        name, _, here = given.partition('=')
        if name.replace('_', '-') == option:
            return here or value
    return None


def read_config(name: str, task: str | None = None) -> Any:
    """The config of a run directory, a config file or a shipped config, of `task`; None: of any task."""
    is_run = Path(split_reference(name)[0]).is_dir()
    return read_run_config(name, task) if is_run else read_config_file(name, task)


def read_config_file(name: str, task: str | None = None) -> Any:
    config = load_config(name)
    try:
        recipe = recipe_of(config)
    except UserError as error:
        raise UserError(f'{name}: {error}') from None
    if task not in (None, recipe.config.task):
        raise UserError(f'{name}: a config of the task {config.task!r}, expected one of {task!r}')
    return config


def open_translator(runs: list[str], options: Any) -> 'Translator':
    options.parallel.prepare_devices()

    from flax_transformer.tasks.translation.inference.translator import Translator

    pass_over_imports()
    step = getattr(options, 'step', None)
    decoding = dataclasses.asdict(options.decoding)
    return Translator.from_run(*runs, step=step, parallel=options.parallel, **decoding)


def trainer_on_one_device(config: Any) -> 'Trainer':
    """The trainer of a config, perhaps of a run from another machine, which had other devices."""
    import jax

    return make_trainer(dataclasses.replace(config, parallel=ParallelConfig()), jax.devices()[:1])


def progress_bar(total: int | None, unit: str, *, is_shown: bool = True) -> tqdm:
    """A bar on standard error, if that is a terminal; `unit` in the plural, or B for bytes."""
    is_bytes = unit == 'B'
    unit = unit if is_bytes else f' {unit}'  # tqdm puts it right after the number
    return tqdm(
        total=total, unit=unit, unit_scale=is_bytes, disable=not (is_shown and shows_progress()), dynamic_ncols=True
    )


def print_next(done: str, *commands: str) -> None:
    print('\n  '.join([f'{done}. Next:', *commands]) if commands and not is_quiet() else f'{done}.')


def note(text: str, *, is_error: bool = False) -> None:
    """Prints a message for people on standard error; if they asked for quiet, only an error."""
    say(f'flax-transformer: {text}', is_error=is_error)
