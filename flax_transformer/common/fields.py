"""Marks on the fields of a config, and checks."""

import dataclasses
import functools
import itertools
import operator
import types
import typing
from typing import Any, Literal

from .errors import UserError, nearest

# resumable: may change when a run is resumed; any other change would make it a different run.
# cosmetic: does not affect what a run learns; left out when runs are compared.
# transferable: may differ from the run whose parameters a new one starts from (--init-from).
Mark = Literal['resumable', 'cosmetic', 'transferable']


def setting(default: Any, *marks: Mark, **options: Any) -> Any:
    return dataclasses.field(default=default, metadata={'marks': marks}, **options)


def section(kind: type, *marks: Mark) -> Any:
    """A dataclass field that holds a section; its marks apply to all fields of the section."""
    return dataclasses.field(default_factory=kind, metadata={'marks': marks})


def marked(config: Any, mark: Mark) -> set[str]:
    """The marked fields of a config and its sections, such as {'training.steps', 'seed'}."""
    names = set()
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        has_mark = mark in field.metadata.get('marks', ())
        if dataclasses.is_dataclass(value):
            inner = {field.name for field in dataclasses.fields(value)} if has_mark else marked(value, mark)
            names |= {f'{field.name}.{name}' for name in inner}
        elif has_mark:
            names.add(field.name)
    return names


def check(condition: bool, message: str) -> None:
    if not condition:
        raise UserError(message)


def check_numbers(*arrays: Any) -> None:
    """Raises UserError unless all that a model computed is finite."""
    import numpy as np

    check(
        all(np.isfinite(array).all() for array in arrays),
        'the model computes no numbers (NaN): its parameters are damaged, or its training diverged; choose another '
        'checkpoint, as in RUN@12000',
    )


_HUGE = 1e100  # a product of larger ones may overflow
_STORABLE = (bool, int, float, str, tuple, dict, type(None))  # what config.json holds, besides sections


def check_types(config: Any) -> None:
    """Raises UserError unless every field has its declared type, which a run can store, and numbers are not too large.

    Floats are below _HUGE and integers below 2^63.
    """
    for name, kind in typing.get_type_hints(type(config)).items():
        value = _python_numbers(getattr(config, name))
        object.__setattr__(config, name, value)  # the sections are frozen
        if typing.get_origin(kind) is Literal:
            words = typing.get_args(kind)
            check(value in words, f'{name}={value!r}: expected one of {", ".join(words)}.{nearest(str(value), words)}')
            continue

        expected = kind if typing.get_args(kind) else kind.__name__
        check(_is_instance(value, kind), f'{name}={value!r}: expected {expected}')
        check(
            isinstance(value, _STORABLE) or dataclasses.is_dataclass(value),
            f'{name}={value!r}: expected a number, a string, or a tuple or dataclass of them; declare a path as str',
        )
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int | float):
                below = 1 << 63 if isinstance(number, int) else _HUGE  # JAX takes no larger int
                check(abs(number) < below, f'{name}={value}: expected numbers below {below:g}')


def _python_numbers(value: Any) -> Any:
    """The value with Python's numbers, which JSON holds, in place of NumPy's."""
    if type(value) is tuple:
        return tuple(map(_python_numbers, value))
    return value.item() if getattr(value, 'shape', None) == () else value


def _is_instance(value: Any, kind: Any) -> bool:
    options = typing.get_args(kind) or (kind,)
    if typing.get_origin(kind) is tuple:  # tuple[kind, ...], or tuple[kind, kind]
        is_long_enough = options[-1] is Ellipsis or (isinstance(value, tuple) and len(value) == len(options))
        return isinstance(value, tuple) and is_long_enough and all(_is_instance(item, options[0]) for item in value)
    if isinstance(value, bool):  # an int to Python, but not to someone who reads a config
        return bool in options
    return isinstance(value, options) or (float in options and isinstance(value, int))


_BOUNDS = {
    'least': ('at least', operator.ge),
    'above': ('more than', operator.gt),
    'most': ('at most', operator.le),
    'below': ('less than', operator.lt),
}


def check_range(config: Any, *names: str, **bounds: float) -> None:
    """Raises UserError unless the fields, numbers or None, are within bounds, such as `least=1`."""
    for name, (bound, limit) in itertools.product(names, bounds.items()):
        value = getattr(config, name)
        words, holds = _BOUNDS[bound]
        is_optional = types.NoneType in typing.get_args(type(config).__dataclass_fields__[name].type)
        expected = f'{words} {limit:,}' + ', or None' * is_optional
        check(value is None or holds(value, limit), f'{name}={value}: expected {expected}')


def check_used(config: Any, name: str, default: Any, other: str, *values: Any) -> None:
    """Raises UserError if a field is set, but another has none of the values with which it has an effect."""
    value = getattr(config, name)
    got = getattr(config, other)
    check(
        value == default or got in values,
        f'{name}={value!r} has no effect with {other}={got!r}; use {" or ".join(values)}',
    )


check_positive = functools.partial(check_range, least=1)


def check_vocabularies(config: Any) -> None:
    """Raises UserError unless the special ids of a translation model are in both of its vocabularies."""
    check(
        config.target_vocab_size is None or config.tie_embeddings in ('target', 'none'),
        f'target_vocab_size={config.target_vocab_size}: tie_embeddings={config.tie_embeddings!r} shares one table; set '
        'target or none',
    )
    for name in ('pad_id', 'eos_id'):
        value = getattr(config, name)
        for size in ('vocab_size', 'vocab_size_of_target'):
            last = getattr(config, size) - 1
            limit = 'vocab_size' if size == 'vocab_size' else 'target_vocab_size'
            check(0 <= value <= last, f'{name}={value}: expected an id from 0 to {limit} - 1 = {last}')
    check(config.pad_id != config.eos_id, f'pad_id and eos_id are both {config.pad_id}; expected two different ids')
