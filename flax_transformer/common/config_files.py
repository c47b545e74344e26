"""Experiments as Python files: by path, or by the name of one that comes with the package."""

import ast
import dataclasses
import re
import runpy
import traceback
from pathlib import Path
from typing import Any

from flax_transformer.common.errors import UserError, nearest


def shipped_configs() -> dict[str, Path]:
    """The configs that come with the package (installed: inside it; in a checkout: beside it), by name."""
    package = Path(__file__).parents[1]
    folder = next(f for f in (package / 'configs', package.parent / 'configs', package) if f.is_dir())
    return {file.stem: file for file in sorted(folder.glob('*.py'))} if folder != package else {}


def load_config(name: str) -> Any:
    """The Config, of whatever task, that `get_config()` of a file returns. `name` is a path or a shipped config's name.

    Raises UserError, with file and line, if there is no such file or it does not give a Config.
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
    if not (dataclasses.is_dataclass(made) and isinstance(getattr(made, 'task', None), str)):
        raise UserError(
            f'{path}: get_config() returned {type(made).__name__}, expected a flax_transformer.config.Config'
        )
    return made


def _located(path: Path, error: Exception) -> UserError:
    """The error of a config file with its line; the nearest field for a wrong one, the new place for an old import."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == str(path)]
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    line = f', line {lines[-1]}' if lines else ''
    hint = ''
    if match := re.search(r'(\w+)\.__init__\(\) got an unexpected keyword argument \'(\w+)\'', str(error)):
        kind = frames[-1].f_globals.get(match[1])
        fields = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
        hint = nearest(match[2], fields) or f' Its fields: {", ".join(fields)}'
    elif isinstance(error, ImportError) and lines and (error.name or '').startswith('flax_transformer'):
        hint = _new_places(path, lines[-1])
    return UserError(f'{path}{line}: {type(error).__name__}: {error}.{hint}')


def _new_places(path: Path, line: int) -> str:
    """Which modules of the package define the names that the import statement at a line asks for."""
    nodes = ast.walk(ast.parse(path.read_text(encoding='utf-8')))
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.lineno <= line <= node.end_lineno]
    names = {alias.name for node in imports for alias in node.names}
    package, places = Path(__file__).parents[1], []
    for file in sorted(package.rglob('*.py')):
        tree = ast.parse(file.read_text(encoding='utf-8'))
        here = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        here |= {
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        module = '.'.join(file.relative_to(package.parent).with_suffix('').parts)
        places += [f'from {module} import {name}' for name in sorted(here & names)]
    return f' It is now: {"; ".join(places)}' if places else ''
