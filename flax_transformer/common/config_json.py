"""Configs to JSON and back, with a schema version; and the fields in which two configs differ.

The header names the task and, if it is none of the package's, the module that declares it. A section whose field admits
several classes, `model: One | Another`, names its own as `class`, unless it is the first.
"""

import dataclasses
import json
import types
import typing
from typing import Any, NamedTuple, TypeVar

from .errors import UserError, nearest
from .fields import marked
from .json_text import parse_json

SCHEMA_VERSION = 2
T = TypeVar('T')


class Header(NamedTuple):
    task: str
    module: str | None = None  # declares the task; None: it is one of the package's


def to_json(config: Any, *, module: str | None = None) -> str:
    header = {'schema_version': SCHEMA_VERSION, 'task': config.task} | ({'module': module} if module else {})
    return json.dumps(header | _as_table(config), indent=2) + '\n'


def header_of(text: str) -> Header:
    return _read(text)[0]


def from_json(text: str, config_class: type[T]) -> T:
    (task, _), values = _read(text)
    if task != config_class.task:
        raise UserError(f'task={task!r}: expected a config of the task {config_class.task!r}')
    return from_table(values, config_class)


def split_header(values: dict[str, Any]) -> tuple[Header, dict[str, Any]]:
    """What a table says of its task, and its other fields."""
    values = dict(values)
    version = values.pop('schema_version', None)
    if type(version) is not int or version != SCHEMA_VERSION:
        is_later = type(version) is int and version > SCHEMA_VERSION
        remedy = 'upgrade flax_transformer to read it' if is_later else 'train again'
        if 'model_type' in values:
            remedy = "import-huggingface makes a run of a model in Hugging Face's format"
        raise UserError(
            f'schema_version={version!r}: this version of flax_transformer reads {SCHEMA_VERSION}; {remedy}'
        )
    task = values.pop('task', None)
    if not isinstance(task, str):
        raise UserError(f'task={task!r}: expected the name of a task')
    module = values.pop('module', None)
    is_name = isinstance(module, str) and all(map(str.isidentifier, module.split('.')))
    if module is not None and not is_name:
        raise UserError(f'module={module!r}: expected the name of a module')
    return Header(task, module), values


def _read(text: str) -> tuple[Header, dict[str, Any]]:
    try:
        values = parse_json(text)
    except ValueError as error:
        raise UserError(f'config is not JSON ({error})') from None
    if not isinstance(values, dict):
        raise UserError(f'config: got {type(values).__name__}, expected a JSON object')
    return split_header(values)


def _elsewhere(name: str, hints: dict[str, Any]) -> str:
    last = name.rpartition('.')[2]
    sections = [
        section
        for section, hint in hints.items()
        if any(last == field.name for kind in section_classes(hint) for field in dataclasses.fields(kind))
    ]
    return f' Did you mean {last} in {", ".join(sections)}?' if sections else ''


def from_table(values: Any, cls: type[T], path: str = '', classes: tuple[type, ...] = ()) -> T:
    """The config, or the section at this path, of a table of fields.

    `classes` are those that the section may have. A field that only earlier versions had, in FORMER of the class with
    its default, is passed over.
    """
    if not isinstance(values, dict):
        raise UserError(f'{path or "config"}: got {values!r}, expected a table of fields')
    hints = typing.get_type_hints(cls)
    hints = {field.name: hints[field.name] for field in dataclasses.fields(cls)}  # `task` is a ClassVar, no field
    fields = {}
    for name, value in values.items():
        where = f'{path}.{name}' if path else name
        former = getattr(cls, 'FORMER', {})
        if name in former and name not in hints:
            if value != former[name]:
                raise UserError(f'{where}={value!r}: a field of an earlier version; train again, or use that version')
            continue
        if name not in hints:
            if others := [kind.__name__ for kind in classes if name in kind.__dataclass_fields__]:
                raise UserError(f'{where}: no such field of {cls.__name__}; set {path}.class to {" or ".join(others)}')
            raise UserError(f'{where}: no such field.{_elsewhere(name, hints) or nearest(name, hints)}')
        if kinds := section_classes(hints[name]):
            fields[name] = _section(kinds, value, where)
        elif typing.get_origin(hints[name]) is tuple and isinstance(value, list):
            kind = typing.get_args(hints[name])[0]
            if dataclasses.is_dataclass(kind):
                value = [from_table(item, kind, f'{where}.{i}') for i, item in enumerate(value)]
            fields[name] = tuple(value)
        else:
            fields[name] = value

    try:
        return cls(**fields)
    except UserError as error:
        raise UserError(f'{path}.{error}' if path else str(error)) from None


def section_classes(hint: Any) -> tuple[type, ...]:
    """The classes that a section may have, by its field's type; () for a field that is no section."""
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return tuple(kinds) if all(map(dataclasses.is_dataclass, kinds)) else ()


def _section(classes: tuple[type, ...], values: Any, path: str) -> Any:
    if len(classes) == 1 or not isinstance(values, dict) or 'class' not in values:
        return from_table(values, classes[0], path, classes)
    known = {kind.__name__: kind for kind in classes}
    name = values['class']
    if not isinstance(name, str) or name not in known:
        raise UserError(f'{path}.class={name!r}: expected one of {", ".join(known)}.{nearest(str(name), known)}')
    return from_table({key: value for key, value in values.items() if key != 'class'}, known[name], path, classes)


def _as_table(config: Any) -> dict[str, Any]:
    """The fields of a config as plain values, with the classes of sections that are not of their first."""
    table = dataclasses.asdict(config)
    hints = typing.get_type_hints(type(config))
    for name, values in table.items():
        classes = section_classes(hints[name])
        kind = type(getattr(config, name))
        if classes and kind is not classes[0]:
            table[name] = {'class': kind.__name__, **values}
    return table


def flat_fields(config: Any) -> dict[str, Any]:
    """The fields of a config and its sections, `{'model.d_model': 512, ..., 'seed': 0}`."""
    return flat_table(_as_table(config))


def flat_table(table: dict[str, Any]) -> dict[str, Any]:
    flat = {}
    for name, value in table.items():
        if isinstance(value, dict):
            flat |= {f'{name}.{key}': inner for key, inner in value.items()}
        else:
            flat[name] = value
    return flat


def changed_fields(old: Any, new: Any) -> dict[str, tuple[Any, Any]]:
    """`{'model.d_model': (old value, new value), ...}` for the fields in which two configs differ."""
    before = flat_fields(old)
    after = flat_fields(new)
    names = [name for name in before | after if before.get(name) != after.get(name)]
    return {name: (before.get(name), after.get(name)) for name in names}


def refused_fields(theirs: Any, ours: Any, mark: str) -> str:
    """The fields without the mark in which ours differs from theirs, a line each."""
    changed = changed_fields(theirs, ours)
    allowed = marked(ours, mark)
    return '\n'.join(
        f'  {name}: {there!r} there, {here!r} here' for name, (there, here) in changed.items() if name not in allowed
    )
