"""Experiments as Python files: by path, or by the name of one that comes with the package."""

import re
import runpy
import traceback
from pathlib import Path

from flax_transformer import config as config_module
from flax_transformer.common.errors import UserError, nearest
from flax_transformer.tasks.translation.config import Config


def shipped_configs() -> dict[str, Path]:
    """The configs that come with the package (installed: inside it; in a checkout: beside it), by name."""
    package = Path(__file__).parents[1]
    folder = next(f for f in (package / 'configs', package.parent / 'configs', package) if f.is_dir())
    return {file.stem: file for file in sorted(folder.glob('*.py'))} if folder != package else {}


def load_config(name: str) -> Config:
    """The Config that `get_config()` of a file returns. `name` is a path, or the name of a shipped config.

    Raises UserError, with file and line, where there is no such file or it does not give a Config.
    """
    shipped = shipped_configs()
    path = Path(name)
    if not path.is_file():
        if name not in shipped:
            raise UserError(
                f'config {name!r}: no such file, and none of the shipped configs '
                f'({", ".join(shipped)}).{nearest(name, shipped)}'
            )
        path = shipped[name]
    try:
        made = runpy.run_path(str(path))['get_config']()
    except UserError as error:
        raise UserError(f'{path}: {error}') from None
    except KeyError as error:
        if error.args != ('get_config',):
            raise _located(path, error) from None
        raise UserError(
            f'{path} has no function get_config(); it should return a flax_transformer.config.Config'
        ) from None
    except Exception as error:
        raise _located(path, error) from None
    if not isinstance(made, Config):
        raise UserError(
            f'{path}: get_config() returned {type(made).__name__}, expected a flax_transformer.config.Config'
        )
    return made


def _located(path: Path, error: Exception) -> UserError:
    """What a config file raised, with its line, and the nearest field where a field's name is wrong."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    line = f', line {lines[-1]}' if lines else ''
    hint = ''
    if match := re.search(r'(\w+)\.__init__\(\) got an unexpected keyword argument \'(\w+)\'', str(error)):
        fields = getattr(getattr(config_module, match[1], None), '__dataclass_fields__', {})
        hint = nearest(match[2], fields) or f' Its fields: {", ".join(fields)}'
    return UserError(f'{path}{line}: {type(error).__name__}: {error}.{hint}')
