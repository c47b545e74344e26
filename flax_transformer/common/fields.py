"""Marks on the fields of a config: what may be done with each."""

import dataclasses
from typing import Any, Literal

# resumable: may change when a run is resumed; any other change would make it a different run.
# cosmetic: does not affect what a run learns; left out when runs are compared.
# transferable: may differ from the run whose parameters a new one starts from (--init-from).
Mark = Literal['resumable', 'cosmetic', 'transferable']


def setting(default: Any, *marks: Mark, **options: Any) -> Any:
    """A dataclass field with a default, marks, and options of `dataclasses.field`."""
    return dataclasses.field(default=default, metadata={'marks': marks}, **options)


def section(kind: type, *marks: Mark) -> Any:
    """A dataclass field that holds a section, by default `kind()`; its marks apply to all fields of the section."""
    return dataclasses.field(default_factory=kind, metadata={'marks': marks})


def marked(config: Any, mark: Mark) -> set[str]:
    """The marked fields of a config and its sections, such as {'training.steps', 'seed'}."""
    found = set()
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        has_mark = mark in field.metadata.get('marks', ())
        if dataclasses.is_dataclass(value):
            names = {each.name for each in dataclasses.fields(value)} if has_mark else marked(value, mark)
            found |= {f'{field.name}.{name}' for name in names}
        elif has_mark:
            found.add(field.name)
    return found
