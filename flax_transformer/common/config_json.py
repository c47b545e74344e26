"""A config as JSON and back, with a schema version; and where two configs differ."""

import dataclasses
import json
import typing
from typing import Any

from flax_transformer.common.errors import UserError, nearest
from flax_transformer.tasks.translation.config import Config

SCHEMA_VERSION = 1


def to_json(config: Config) -> str:
    """The config as JSON text, with its schema version."""
    return json.dumps({'schema_version': SCHEMA_VERSION, **dataclasses.asdict(config)}, indent=2) + '\n'


def from_json(text: str) -> Config:
    """The config that `to_json` wrote. Raises UserError for a later schema, an unknown field or a bad value."""
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f'config is not JSON ({error})') from None
    if not isinstance(values, dict):
        raise UserError(f'config: got {type(values).__name__}, expected a JSON object')
    version = values.pop('schema_version', None)
    if type(version) is not int or version < 1:
        raise UserError(f'schema_version={version!r}: this version of flax_transformer reads 1 to {SCHEMA_VERSION}')
    if version > SCHEMA_VERSION:
        raise UserError(
            f'schema_version={version}: this version of flax_transformer reads 1 to {SCHEMA_VERSION}; '
            'upgrade flax_transformer to read it'
        )
    return _from_dict(Config, values, '')


def _from_dict(cls: type, values: Any, path: str) -> Any:
    if not isinstance(values, dict):
        raise UserError(f'{path or "config"}: got {values!r}, expected a table of fields')
    hints = typing.get_type_hints(cls)
    fields = {}
    for name, value in values.items():
        where = f'{path}.{name}' if path else name
        if name not in hints:
            raise UserError(f'{where}: no such field.{nearest(name, hints)}')
        if dataclasses.is_dataclass(hints[name]):
            fields[name] = _from_dict(hints[name], value, where)
        elif typing.get_origin(hints[name]) is tuple and isinstance(value, list):
            kind = typing.get_args(hints[name])[0]
            is_table = dataclasses.is_dataclass(kind)
            fields[name] = tuple(
                _from_dict(kind, item, f'{where}.{i}') if is_table else item for i, item in enumerate(value)
            )
        else:
            fields[name] = value
    try:
        return cls(**fields)
    except UserError as error:
        raise UserError(f'{path}.{error}' if path else str(error)) from None


def changed_fields(old: Config, new: Config) -> dict[str, tuple[Any, Any]]:
    """`{'model.d_model': (old value, new value), ...}` for the fields in which two configs differ."""

    def flat(config: Config) -> dict[str, Any]:
        out = {}
        for name, value in dataclasses.asdict(config).items():
            out |= {f'{name}.{key}': v for key, v in value.items()} if isinstance(value, dict) else {name: value}
        return out

    before, after = flat(old), flat(new)
    return {name: (before[name], after[name]) for name in before if before[name] != after[name]}
