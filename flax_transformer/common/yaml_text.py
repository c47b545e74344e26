"""YAML 1.2 to values, and the line of each field."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from .errors import UserError

_TAG = 'tag:yaml.org,2002:'
_TAGS = ('str', 'seq', 'map', 'null', 'bool', 'int', 'float')
_DIGITS = r'\d+(_\d+)*'


class _Loader(yaml.SafeLoader):
    """Reads plain values as YAML 1.2 does: `no` is a language, 1e-9 a number, and dates are text."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 (yaml's own way)
    yaml_constructors = {f'{_TAG}{tag}': yaml.SafeLoader.yaml_constructors[f'{_TAG}{tag}'] for tag in _TAGS} | {
        f'{_TAG}int': lambda loader, node: int(loader.construct_scalar(node)),  # yaml's own takes 010 for 8
        None: yaml.SafeLoader.construct_undefined,
    }


for _tag, _pattern, _first in (
    ('bool', r'(true|True|false|False)$', 'tTfF'),
    ('int', rf'[-+]?{_DIGITS}$', '-+0123456789'),
    ('float', rf'[-+]?({_DIGITS}(\.\d*)?|\.\d+)([eE][-+]?\d+)?$', '-+.0123456789'),
    ('null', r'(~|null|Null|None|)$', ['~', 'n', 'N', '']),
):
    _Loader.add_implicit_resolver(f'{_TAG}{_tag}', re.compile(_pattern), list(_first))


def read_yaml(path: Path, text: str) -> tuple[Any, dict[str, int]]:
    """The value of a file's text, {} if it is empty, and the line of each field, from 1."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        lines = dict(_lines(path, node))
        return {} if node is None else loader.construct_document(node), lines
    except UserError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = ', '.join(part for part in (error.context, error.problem) if part)
        raise UserError(f'{path}{f", line {mark.line + 1}" if mark else ""}: not YAML: {why}') from None
    except (yaml.YAMLError, ValueError, LookupError) as error:  # a control character, or `!!int x`
        raise UserError(f'{path}: not YAML: {error}') from None
    except RecursionError:  # many brackets, or an anchor inside itself
        raise UserError(f'{path}: is nested too deeply') from None


def _lines(path: Path, node: Any, prefix: str = '') -> Iterator[tuple[str, int]]:
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
            raise UserError(f'{path}, line {line}: got {key.value}, expected the name of a field')
        name = f'{prefix}{key.value}'
        if name in seen:
            raise UserError(f'{path}, line {line}: {name} is set a second time, first in line {seen[name]}')
        seen[name] = line
        yield name, line
        yield from _lines(path, value, f'{name}.')
