"""Command-line options from dataclasses, by tyro; the config or the run is the first positional argument."""

import typing
from collections.abc import Callable
from typing import Any

import tyro

from flax_transformer.errors import UserError

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
    asks_help = any(arg in ('-h', '--help') for arg in argv)
    if not argv or argv[0].startswith('-'):
        if not asks_help:
            got = f'got {argv[0]!r}' if argv else 'got nothing'
            raise UserError(f'{command}: {got}, expected {first} first: flax-transformer {command} {first} [--field value ...]')
        made: Any = None
    else:
        made = default(argv[0])
    kwargs = {} if made is None else {'default': made}
    return tyro.cli(
        options, prog=f'flax-transformer {command} {first}', description=description, args=argv[1:] if made else ['--help'], **kwargs
    )
