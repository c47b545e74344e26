"""Command-line options from dataclasses, by tyro; the config or the run is the first positional argument."""

import sys
import typing
from collections.abc import Callable
from pathlib import Path

import tyro
from tqdm import tqdm

from flax_transformer.config import Config
from flax_transformer.errors import UserError
from flax_transformer.run_directory import RunDirectory
from flax_transformer.tokenizer import Tokenizer

T = typing.TypeVar('T')


def parse(
    command: str,
    options: type[T],
    argv: list[str],
    *,
    first: str,
    description: str,
    default: Callable[[str], T],
) -> T:
    """The options of a command, from its first argument and the fields behind it.

    Args:
      options: a dataclass whose first field is the positional argument.
      first: that argument's name, for messages.
      default: makes the options' defaults from the first argument, so that `--help CONFIG` shows that config's values.
    """
    prog = f'flax-transformer {command} {first}'
    if argv and not argv[0].startswith('-'):
        return tyro.cli(options, prog=prog, description=description, args=argv[1:], default=default(argv[0]))
    if any(arg in ('-h', '--help') for arg in argv):
        return tyro.cli(options, prog=prog, description=description, args=['--help'])
    got = f'got {argv[0]!r}' if argv else 'got nothing'
    raise UserError(f'{command}: {got}, expected {first} first: {prog} [--field value ...]')


def read_run_config(path: Path | str) -> Config:
    """The config of a run directory."""
    return RunDirectory(path).read_config()


def read_run_tokenizer(path: Path | None) -> Tokenizer | None:
    """The tokenizer of a run directory; None for None."""
    if path is None:
        return None
    read_run_config(path)  # which says it where this is no run, or one of a later version
    return RunDirectory(path).read_tokenizer()


def progress_bar(total: int | None, unit: str) -> tqdm:
    """A bar on standard error, in a terminal only."""
    return tqdm(total=total, unit=unit, disable=not sys.stderr.isatty(), dynamic_ncols=True)


def note(text: str) -> None:
    """A word to the person, beside the output."""
    print(f'flax-transformer: {text}', file=sys.stderr)
