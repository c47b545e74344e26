"""A fingerprint of any data: what decides whether a run may go on with them."""

import dataclasses
import hashlib
import numbers
from collections.abc import Mapping, Sequence, Set
from enum import Enum
from pathlib import Path
from typing import Any

import jax
import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import sha256_of


def fingerprint_of(value: Any) -> str:
    """The SHA-256 of a value with all that is in it, the same in every process.

    Takes arrays, dataclasses, sequences, mappings, sets, texts, numbers, None, and paths of files, of which the content
    counts.
    """
    return _digest(value, 'what prepare returns').hex()


def _digest(value: Any, place: str) -> bytes:
    kind = type(value)
    digest = hashlib.sha256(f'{kind.__qualname__}\n'.encode())
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        array = np.asarray(value)
        if array.dtype.hasobject:
            return _digest(array.tolist(), place)
        digest.update(f'{array.dtype.str} {array.shape}\n'.encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    elif isinstance(value, bytes | bytearray | memoryview):
        digest.update(value)
    elif value is None or isinstance(value, str | numbers.Number | Enum):
        digest.update(repr(value).encode('utf-8', 'surrogatepass'))
    elif isinstance(value, Path) and value.is_file():
        digest.update(sha256_of(value).encode())
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            digest.update(field.name.encode() + _digest(getattr(value, field.name), f'{place}.{field.name}'))
    elif isinstance(value, Mapping):
        items = (_digest(key, place) + _digest(item, f'{place}[{key!r}]') for key, item in value.items())
        digest.update(b''.join(sorted(items)))
    elif isinstance(value, Set):
        digest.update(b''.join(sorted(_digest(item, place) for item in value)))
    elif isinstance(value, Sequence):
        for i, item in enumerate(value):
            digest.update(_digest(item, f'{place}[{i}]'))
    else:
        raise UserError(
            f'{place} is a {kind.__qualname__}, of which no fingerprint can be made: training could not tell whether '
            'it goes on with the same data. Declare the task with fingerprint=, a function of what prepare returns'
        )
    return digest.digest()
