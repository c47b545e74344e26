"""Config files: Python, by path or by the name of one that comes with the package; tables of fields in JSON or YAML."""

import contextlib
import dataclasses
import json
import re
import runpy
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from flax_transformer.common.errors import UserError, nearest
from flax_transformer.common.json_text import parse_json

SUFFIXES = ('.json', '.yaml', '.yml')  # files that hold tables
_TAG = 'tag:yaml.org,2002:'


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
    """What the `get_config()` of a config file returns; it can import modules next to the file. The file is run as a
    module, so that a config's class leads to the task defined next to it."""
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
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    line = f', line {lines[-1]}' if lines else ''
    hint = ''
    if match := re.search(r'(\w+)\.__init__\(\) got an unexpected keyword argument \'(\w+)\'', str(error)):
        kind = next((frame.f_globals[match[1]] for frame in reversed(frames) if match[1] in frame.f_globals), None)
        fields = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
        hint = nearest(match[2], fields) or (f' Its fields: {", ".join(fields)}' if fields else '')
    return UserError(f'{path}{line}: {type(error).__name__}: {error}.{hint}')


class Table(NamedTuple):
    """The content of a file, and where its fields are."""

    values: dict[str, Any]
    lines: dict[str, int]  # {'model.d_model': 3, ...}, from 1

    def line_of(self, message: str) -> int | None:
        """The line of the first field that an error message names; None if it names none of this file."""
        words = re.findall(r'\w+(?:\.\w+)*', message)
        for word in words:
            if word in self.lines:
                return self.lines[word]
        for word in words:
            last = [line for name, line in self.lines.items() if name.rpartition('.')[2] == word.rpartition('.')[2]]
            if last:
                return last[0]
        return None


def read_table(path: Path) -> Table:
    """The fields in a JSON or YAML file. Raises UserError, with the line, if it is neither, or repeats a field."""
    try:
        text = path.read_text(encoding='utf-8-sig')
    except UnicodeDecodeError as error:
        raise UserError(f'{path}: expected UTF-8 ({error})') from None
    is_json = path.suffix == '.json'
    values = _json(path, text) if is_json else None
    # JSON is YAML too, except for tabs, which it has only between values.
    lines, loaded = _yaml(path, text.replace('\t', ' ') if is_json else text)
    values = values if is_json else loaded
    if not isinstance(values, dict):
        raise UserError(f'{path}: got {type(values).__name__}, expected a table of fields, such as seed: 1')
    return Table(values, lines)


def _json(path: Path, text: str) -> Any:
    try:
        return parse_json(text)
    except json.JSONDecodeError as error:
        raise UserError(f'{path}, line {error.lineno}: not JSON: {error.msg}, column {error.colno}') from None
    except ValueError as error:
        raise UserError(f'{path}: {error}') from None


def _yaml(path: Path, text: str) -> tuple[dict[str, int], Any]:
    """The lines of the text's fields, and its values; an empty text is an empty table."""
    import yaml

    try:
        loader = _loader()(text)
        node = loader.get_single_node()
        return dict(_lines(path, node)), {} if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = ', '.join(part for part in (error.context, error.problem) if part)
        raise UserError(f'{path}{f", line {mark.line + 1}" if mark else ""}: not YAML: {why}') from None
    except yaml.YAMLError as error:  # such as a control character
        raise UserError(f'{path}: not YAML: {error}') from None
    except RecursionError:  # or an anchor inside itself
        raise UserError(f'{path}: is nested too deeply') from None


def _lines(path: Path, node: Any, prefix: str = '') -> Iterator[tuple[str, int]]:
    """Name and line of every field below a node."""
    import yaml

    if isinstance(node, yaml.SequenceNode):
        for i, item in enumerate(node.value):
            yield f'{prefix}{i}', item.start_mark.line + 1
            yield from _lines(path, item, f'{prefix}{i}.')
    if not isinstance(node, yaml.MappingNode):
        return
    seen: dict[str, int] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if key.tag != f'{_TAG}str':
            got = f'got {key.value}, ' if isinstance(key, yaml.ScalarNode) else ''
            raise UserError(f'{path}, line {line}: {got}expected the name of a field')
        name = f'{prefix}{key.value}'
        if key.value in seen:
            raise UserError(f'{path}, line {line}: {name} is set a second time, first in line {seen[key.value]}')
        seen[key.value] = line
        yield name, line
        yield from _lines(path, value, f'{name}.')


def _loader() -> type:
    """YAML 1.2's plain values, with underscores in numbers: `no` is a language, 1e-9 a number, and dates are text."""
    import yaml

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers = {}  # noqa: RUF012 (yaml's own way)
        yaml_constructors = {None: yaml.SafeLoader.construct_undefined}  # noqa: RUF012

    for tag in ('str', 'seq', 'map', 'null'):
        Loader.add_constructor(f'{_TAG}{tag}', yaml.SafeLoader.yaml_constructors[f'{_TAG}{tag}'])
    digits = r'\d+(_\d+)*'
    for tag, read, pattern, first in (
        ('bool', ('true', 'True').__contains__, r'(true|True|false|False)$', 'tTfF'),
        ('int', int, rf'[-+]?{digits}$', '-+0123456789'),
        ('float', float, rf'[-+]?({digits}(\.\d*)?|\.\d+)([eE][-+]?\d+)?$', '-+.0123456789'),
        ('null', None, r'(~|null|Null|None|)$', ['~', 'n', 'N', '']),
    ):
        form = re.compile(pattern)
        Loader.add_implicit_resolver(f'{_TAG}{tag}', form, list(first))
        if read:
            Loader.add_constructor(f'{_TAG}{tag}', _constructor(tag, form, read))
    return Loader


def _constructor(tag: str, form: re.Pattern, read: Callable[[str], Any]) -> Callable[[Any, Any], Any]:
    """Reads a value of this tag; refuses, with its line, one that has another form."""
    import yaml

    def construct(loader: Any, node: Any) -> Any:
        text = loader.construct_scalar(node)
        with contextlib.suppress(ValueError):  # thousands of digits
            if form.match(text):
                return read(text)
        got = repr(text if len(text) <= 40 else f'{text[:40]}...')
        raise yaml.constructor.ConstructorError(None, None, f'got {got}, expected {tag}', node.start_mark)

    return construct
