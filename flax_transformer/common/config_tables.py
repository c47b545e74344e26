"""Config files without code: tables of fields in JSON or YAML, with the line of each field."""

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from flax_transformer.common.errors import UserError
from flax_transformer.common.json_text import parse_json

SUFFIXES = ('.json', '.yaml', '.yml')
_TAG = 'tag:yaml.org,2002:'


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
