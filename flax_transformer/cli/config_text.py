"""A config as Python, with the comment of each field."""

import dataclasses
import importlib
from collections.abc import Iterator
from typing import Any

from flax_transformer.cli.help import texts_of
from flax_transformer.engine.config import TaskConfig

_WIDTH = 120
_FIRST = ('model', 'data')
_HERE = 'str(Path(__file__).resolve().parent)'
_OWN = {'data.root': 'this folder, which can be moved'}  # comments that say more than the field's


def config_text(config: TaskConfig, docstring: str, comments: dict[str, str]) -> str:
    """The fields that differ from the defaults; `comments` of some, as 'training.steps', replace those of the fields.

    Paths start at the file's own folder, so that it can be moved with its data.
    """
    # Users import from it, and no module of ours does.
    public_names = importlib.import_module('flax_transformer.config')
    body = list(_section(config, '', _OWN | comments, 8))
    names: dict[str, list[str]] = {}
    for kind in sorted({type(config), *map(type, vars(config).values())}, key=lambda kind: kind.__name__):
        if kind is type(config) or any(f'={kind.__name__}(' in line for line in body):
            is_public = getattr(public_names, kind.__name__, None) is kind
            names.setdefault(public_names.__name__ if is_public else kind.__module__, []).append(kind.__name__)
    imports = ['from pathlib import Path', ''] if any(_HERE in line for line in body) else []
    for module, found in names.items():
        imports += [f'from {module} import (', *(f'    {name},' for name in found), ')']
    quoted, kind = docstring.replace('\\', '\\\\').replace('"', '\\"'), type(config).__name__
    start = [f'"""{quoted}"""', '', *imports, '', '', f'def get_config() -> {kind}:', f'    return {kind}(']
    return '\n'.join([*start, *body, '    )', ''])


def _section(section: Any, prefix: str, comments: dict[str, str], indent: int) -> Iterator[str]:
    space, texts = ' ' * indent, texts_of(type(section))
    for each in sorted(dataclasses.fields(section), key=lambda each: not prefix and each.name not in _FIRST):
        name, value = f'{prefix}{each.name}', getattr(section, each.name)
        if value == (each.default_factory() if callable(each.default_factory) else each.default):
            continue
        if dataclasses.is_dataclass(value):
            yield f'{space}{each.name}={type(value).__name__}('
            yield from _section(value, f'{name}.', comments, indent + 4)
            yield f'{space}),'
        else:
            line = f'{space}{each.name}={_HERE if name == "data.root" else repr(value)},'
            comment = f'  # {comments.get(name) or texts[each.name].partition("; ")[0]}'
            yield line + (comment if 4 < len(comment) <= _WIDTH - len(line) else '')
