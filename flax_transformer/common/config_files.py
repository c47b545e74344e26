"""Config files: Python, by path or by the name of one that comes with the package; tables of fields in JSON or YAML."""

import dataclasses
import json
import re
import runpy
import sys
import traceback
import types
from pathlib import Path
from typing import Any, NamedTuple

from .errors import UserError, nearest
from .json_text import parse_json

SUFFIXES = ('.json', '.yaml', '.yml')  # files that hold tables


def shipped_configs() -> dict[str, Path]:
    """The configs that come with the package, by name; inside it when installed, next to it in a checkout."""
    package = Path(__file__).parents[1]
    folder = next(f for f in (package / 'configs', package.parent / 'configs', package) if f.is_dir())
    return {file.stem: file for file in sorted(folder.glob('*.py'))} if folder != package else {}


def load_config(name: str) -> Any:
    """The Config that `get_config()` of a file or a shipped config returns."""
    path = _path_of(name)
    try:
        config = _made_by(path)
    except UserError as error:
        raise UserError(f'{path}: {error}') from None
    except Exception as error:
        if path.suffix != '.py':
            raise UserError(
                f'{path} is no config, as Python ({type(error).__name__}); expected a file named .py, '
                f'{", ".join(SUFFIXES)}, or a shipped config: `flax-transformer new` writes one for your data'
            ) from None
        raise _located(path, error) from None

    if not (dataclasses.is_dataclass(config) and isinstance(getattr(config, 'task', None), str)):
        got = type(config).__name__
        raise UserError(f'{path}: get_config() returned {got}, expected a flax_transformer.config.Config')
    return config


def _path_of(name: str) -> Path:
    path = Path(name)
    if path.is_file():
        return path
    shipped = shipped_configs()
    if name in shipped:
        return shipped[name]
    named_so = [f'{path}{suffix}' for suffix in ('.py', *SUFFIXES) if Path(f'{path}{suffix}').is_file()]
    hint = f' Did you mean {named_so[0]}?' if named_so else nearest(name, shipped)
    raise UserError(f'config {name!r}: no such file, nor one of the shipped configs ({", ".join(shipped)}).{hint}')


def _made_by(path: Path) -> Any:
    """What the `get_config()` of a file returns, run as a module, so that a config's class leads to a task there."""
    module = types.ModuleType(f'config_file_{path.stem}')
    before = list(sys.path)
    sys.path.append(str(path.parent.absolute()))  # last: what is installed comes first
    try:
        vars(module).update(runpy.run_path(str(path), run_name=module.__name__))
        sys.modules[module.__name__] = module
        if not hasattr(module, 'get_config'):
            raise UserError(
                'has no function get_config(), which returns a config, such as flax_transformer.config.Config'
            )
        return module.get_config()
    finally:
        sys.path[:] = before


def _located(path: Path, error: Exception) -> UserError:
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    line = f', line {lines[-1]}' if lines else ''
    hint = ''
    if match := re.search(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'", str(error)):
        section = next((frame.f_globals[match[1]] for frame in frames if match[1] in frame.f_globals), None)
        fields = [field.name for field in dataclasses.fields(section)] if dataclasses.is_dataclass(section) else []
        hint = nearest(match[2], fields) or (f' Its fields: {", ".join(fields)}' if fields else '')
    return UserError(f'{path}{line}: {type(error).__name__}: {error}.{hint}')


class Table(NamedTuple):
    """The content of a file, and where its fields are."""

    values: dict[str, Any]
    lines: dict[str, int]  # {'model.d_model': 3, ...}, from 1

    def line_of(self, message: str) -> int | None:
        """The line of the first field that an error message names; None if it names none."""
        words = re.findall(r'\w+(?:\.\w+)*', message)
        by_last_part = {name.rpartition('.')[2]: line for name, line in reversed(self.lines.items())}
        lines = [self.lines.get(word) for word in words]
        lines += [by_last_part.get(word.rpartition('.')[2]) for word in words]
        return next(filter(None, lines), None)


def read_table(path: Path) -> Table:
    from .yaml_text import read_yaml

    try:
        text = path.read_text(encoding='utf-8-sig')
        if path.suffix == '.json':
            values = parse_json(text)
            # JSON is YAML too, except for tabs, which it has only between values.
            _, lines = read_yaml(path, text.replace('\t', ' '))
        else:
            values, lines = read_yaml(path, text)
    except UnicodeDecodeError as error:
        raise UserError(f'{path}: expected UTF-8 ({error})') from None
    except json.JSONDecodeError as error:
        raise UserError(f'{path}, line {error.lineno}: not JSON: {error.msg}, column {error.colno}') from None
    except UserError:
        raise
    except ValueError as error:
        raise UserError(f'{path}: {error}') from None

    if not isinstance(values, dict):
        raise UserError(f'{path}: got {type(values).__name__}, expected a table of fields, such as seed: 1')
    return Table(values, lines)
