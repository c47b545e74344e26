"""Config files in Python, by path or by the name of one that comes with the package."""

import dataclasses
import re
import runpy
import sys
import traceback
import types
from pathlib import Path
from typing import Any

from flax_transformer.common.config_tables import SUFFIXES
from flax_transformer.common.errors import UserError, nearest


def shipped_configs() -> dict[str, Path]:
    """The configs that come with the package (inside it when installed, next to it in a checkout), by name."""
    package = Path(__file__).parents[1]
    folder = next(f for f in (package / 'configs', package.parent / 'configs', package) if f.is_dir())
    return {file.stem: file for file in sorted(folder.glob('*.py'))} if folder != package else {}


def load_config(name: str) -> Any:
    """The Config, of any task, that a file's `get_config()` returns. `name` is a path or a shipped config's name.

    Raises UserError, with file and line, if there is no such file or it does not return a Config.
    """
    shipped = shipped_configs()
    path = Path(name)
    if not path.is_file():
        if name not in shipped:
            beside = [f'{path}{suffix}' for suffix in ('.py', *SUFFIXES) if Path(f'{path}{suffix}').is_file()]
            hint = f' Did you mean {beside[0]}?' if beside else nearest(name, shipped)
            raise UserError(
                f'config {name!r}: no such file, and none of the shipped configs ({", ".join(shipped)}).{hint}'
            )
        path = shipped[name]
    try:
        made = _made_by(path)
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
    if not (dataclasses.is_dataclass(made) and isinstance(getattr(made, 'task', None), str)):
        raise UserError(
            f'{path}: get_config() returned {type(made).__name__}, expected a flax_transformer.config.Config'
        )
    return made


def _made_by(path: Path) -> Any:
    """What the `get_config()` of a config file returns; it can import modules next to the file.

    The file is run as a module: a config of a class that it defines leads to what is defined next to that class.
    """
    module, before = types.ModuleType(f'config_file_{path.stem}'), list(sys.path)
    sys.path.append(str(path.parent.absolute()))  # last: what is installed comes first
    try:
        vars(module).update(runpy.run_path(str(path), run_name=module.__name__))
        sys.modules[module.__name__] = module
        return vars(module)['get_config']()
    finally:
        sys.path[:] = before


def _located(path: Path, error: Exception) -> UserError:
    """A config file's error with its line, and the field that was probably meant."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == str(path)]
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    line = f', line {lines[-1]}' if lines else ''
    hint = ''
    if match := re.search(r'(\w+)\.__init__\(\) got an unexpected keyword argument \'(\w+)\'', str(error)):
        kind = frames[-1].f_globals.get(match[1])
        fields = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
        hint = nearest(match[2], fields) or f' Its fields: {", ".join(fields)}'
    return UserError(f'{path}{line}: {type(error).__name__}: {error}.{hint}')
