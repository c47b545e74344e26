"""The commands `configs` and `models`: what comes with the package."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path

from flax_transformer.common.config_files import shipped_configs
from flax_transformer.common.errors import UserError, nearest
from flax_transformer.engine.runs.run_directory import shipped_models

from .help import wants_help


def configs(argv: list[str]) -> None:
    """usage: flax-transformer configs [NAME]

    Print a config that comes with the package, to begin your own:
      flax-transformer configs multi30k_en_de > my_config.py
    Without a NAME, list all.
    """
    _list_or_print(configs, argv, shipped_configs())


def models(argv: list[str]) -> None:
    """usage: flax-transformer models [NAME]

    List the models that come with the package. Their names stand where a command
    wants a run:
      flax-transformer translate everyday < lines
    With a NAME, print its card: data, scores, limits and license.
    """
    cards = {name: folder / 'README.md' for name, folder in shipped_models().items()}

    def title_of(name: str) -> str:
        return cards[name].read_text('utf-8').partition('\n')[0].removeprefix('# ')

    _list_or_print(models, argv, cards, title_of)


def _list_or_print(
    command: Callable, argv: list[str], files: Mapping[str, Path], line_of: Callable[[str], str] = str
) -> None:
    name = ' '.join(argv)
    if wants_help(argv):
        print(inspect.getdoc(command))
    elif name and name not in files:
        raise UserError(f'{command.__name__}: got {name}, expected one of {", ".join(files)}.{nearest(name, files)}')
    elif name:
        print(files[name].read_text('utf-8'), end='')
    else:
        print('\n'.join(map(line_of, files)))
