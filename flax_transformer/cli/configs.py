"""`flax-transformer configs [NAME]`: the configs that come with the package."""

from collections.abc import Callable, Mapping
from pathlib import Path

from flax_transformer.common.config_files import shipped_configs
from flax_transformer.common.errors import UserError, nearest

from .help import wants_help

DESCRIPTION = """usage: flax-transformer configs [NAME]

Print a config that comes with the package, to begin your own:
  flax-transformer configs multi30k_en_de > my_config.py
Without a NAME, list all."""


def main(argv: list[str]) -> None:
    list_or_print('configs', DESCRIPTION, argv, shipped_configs())


def list_or_print(
    command: str, description: str, argv: list[str], files: Mapping[str, Path], line_of: Callable[[str], str] = str
) -> None:
    """Prints the file of the name in argv; without one, a line of each. Raises UserError for an unknown name."""
    name = ' '.join(argv)
    if wants_help(argv):
        print(description)
    elif name and name not in files:
        raise UserError(f'{command}: got {name}, expected one of {", ".join(files)}.{nearest(name, files)}')
    elif name:
        print(files[name].read_text('utf-8'), end='')
    else:
        print('\n'.join(map(line_of, files)))
