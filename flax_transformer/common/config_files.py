"""Config files in Python, by path or by the name of one that comes with the package."""

import ast
import dataclasses
import re
import sys
import traceback
import types
from pathlib import Path
from typing import Any

from flax_transformer.common.errors import UserError, nearest

# Modules whose file has another name now, for a hint where an import fails; below flax_transformer.
RENAMED = {
    'alignment': 'tasks.translation.inference.word_alignment',
    'attention': 'transformer.attention',
    'beam': 'decoding.beam_search',
    'config.training': 'engine.config.loop',
    'experiment': 'tasks.translation.train',
    'interruption': 'engine.preemption',
    'loop': 'engine.loop',
    'parallel': 'engine.devices.devices',
    'plan': 'cost.step_cost',
    'processes': 'engine.devices.multihost',
    'reporting': 'engine.monitor.reporter',
    'segmentation': 'text.subword_sampling',
    'train_state': 'engine.state',
    'training': 'engine.step',
    'translation': 'tasks.translation.inference.result',
    'visualize': 'tasks.translation.attention_map',
}


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
            raise UserError(
                f'config {name!r}: no such file, and none of the shipped configs '
                f'({", ".join(shipped)}).{nearest(name, shipped)}'
            )
        path = shipped[name]
    try:
        made = _run(path)['get_config']()
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


def _run(path: Path) -> dict[str, Any]:
    """The names in a config file, which can import modules next to it.

    It is run as a module: a config of a class that it defines leads to what is defined next to that class.
    """
    module = types.ModuleType(f'config_file_{path.stem}')
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    before = list(sys.path)
    sys.path.append(str(path.parent.absolute()))  # last: what is installed comes first
    try:
        exec(compile(path.read_bytes(), str(path), 'exec'), vars(module))
    finally:
        sys.path[:] = before
    return vars(module)


def _located(path: Path, error: Exception) -> UserError:
    """A config file's error with its line, and the field or the new import place that was probably meant."""
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
    """Where the package now has what the import at a line asks for; empty if nowhere."""
    statements = ast.walk(ast.parse(path.read_text(encoding='utf-8')))
    imports = [node for node in statements if isinstance(node, ast.Import | ast.ImportFrom)]
    here = [node for node in imports if node.lineno <= line <= node.end_lineno]
    package = Path(__file__).parents[1]
    files = {'.'.join(file.relative_to(package.parent).with_suffix('').parts): file for file in package.rglob('*.py')}
    names_of = {module.removesuffix('.__init__'): _names_in(file) for module, file in sorted(files.items())}
    places = [place for node in here for place in _places_of(node, names_of)]
    return f' It is now: {"; ".join(dict.fromkeys(places))}' if places else ''


def _places_of(node: ast.Import | ast.ImportFrom, names_of: dict[str, set[str]]) -> list[str]:
    """Statements that import what one statement asks for in vain, from the names that each module has."""
    if isinstance(node, ast.Import):
        return [place for alias in node.names for place in _modules_now(alias.name, names_of)]
    module = node.module or ''
    missing = sorted(alias.name for alias in node.names if not hasattr(sys.modules.get(module), alias.name))
    if missing == ['*']:
        return [f'from {place.removeprefix("import ")} import *' for place in _modules_now(module, names_of)]
    places = []
    for name in missing:
        found = {each: f'from {each} import {name}' for each, names in names_of.items() if name in names}
        places += _shallowest(found) or _modules_now(f'{module}.{name}', names_of)
    return places or ([] if module in names_of else _modules_now(module, names_of))


def _modules_now(old: str, names_of: dict[str, set[str]]) -> list[str]:
    """Imports of what may be a module today; empty if it exists, or if none has its name."""
    if old in names_of:
        return []
    package, _, path = old.partition('.')
    if path in RENAMED:
        return [f'import {package}.{RENAMED[path]}']
    name = old.rpartition('.')[2]
    return _shallowest({module: f'import {module}' for module in names_of if module.rpartition('.')[2] == name})


def _shallowest(places: dict[str, str]) -> list[str]:
    """Those of the least deep modules: flax_transformer.config gives the same name as the room that defines it."""
    depth = min((module.count('.') for module in places), default=0)
    return [place for module, place in places.items() if module.count('.') == depth]


def _names_in(file: Path) -> set[str]:
    """What a module defines, or offers in __all__."""
    names = set()
    for node in ast.parse(file.read_text(encoding='utf-8')).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            targets = {target.id for target in node.targets if isinstance(target, ast.Name)}
            names |= set(ast.literal_eval(node.value)) if '__all__' in targets else targets
    return names
