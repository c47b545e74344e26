"""Compiled programs kept on disk: loading one takes a fraction of the time of tracing it."""

import contextlib
import functools
import os
import uuid
from collections.abc import Callable
from typing import Any

import jax
from jax.experimental import serialize_executable

from flax_transformer.common.compilation_cache import jax_settings, keep, kept_file, read_kept

# What JAX raises for a program that it cannot write or read: it is compiled anew.
_NOT_SERIALIZABLE = (RuntimeError, ValueError, NotImplementedError, KeyError)


class Kept:
    """A function, jitted: compiled by the first process that needs it, and read by the others."""

    def __init__(self, function: Callable[..., Any], settings: str) -> None:
        """`settings` are all that it depends on but code and the arguments' shapes and dtypes; '': not known."""
        self._function = function
        self._jitted = jax.jit(function)
        self._settings = settings
        self._programs: dict[Any, jax.stages.Compiled] = {}

    def __call__(self, *arguments: Any) -> Any:
        leaves, tree = jax.tree.flatten(arguments)
        device = _device_of(leaves)
        if not self._settings or device is None:
            return self._jitted(*arguments)

        key = tree, device, jax_settings(), *[(x.shape, x.dtype) for x in leaves]
        if key not in self._programs:
            self._programs[key] = self.compiled(*arguments)
        return self._programs[key](*arguments)

    def compiled(self, *arguments: Any) -> jax.stages.Compiled:
        """The program for arguments like these, read, or compiled and written; it is not remembered here."""
        leaves, tree = jax.tree.flatten(arguments)
        device = _device_of(leaves)
        file = None
        if self._settings and device is not None:
            shapes = [(x.shape, x.dtype.name) for x in leaves]
            place = device.id, device.device_kind, device.client.platform_version
            file = kept_file('program', self._settings, tree, shapes, place)

        serialized = file and read_kept(file)
        if serialized is not None:
            with contextlib.suppress(*_NOT_SERIALIZABLE):
                return serialize_executable.deserialize_and_load(*serialized, device.client, [device])
        if file is None or not os.access(file.parent, os.W_OK):
            return self._jitted.lower(*arguments).compile()

        # Under a name that JAX's cache cannot know: what JAX has read from there cannot be serialized again.
        named = functools.partial(self._function)
        named.__name__ = f'program_{uuid.uuid4().hex}'
        program = jax.jit(named).lower(*arguments).compile()
        with contextlib.suppress(*_NOT_SERIALIZABLE):
            keep(file, serialize_executable.serialize(program))
        return program


def _device_of(leaves: list[Any]) -> jax.Device | None:
    """Where a program for these arrays runs; None: not on one device that is known."""
    arrays = [x for x in leaves if isinstance(x, jax.Array)]
    if any(isinstance(x, jax.core.Tracer) for x in arrays):
        return None
    first = next((x for x in arrays if x.committed), None)
    if first is not None:
        devices = list(first.devices())
        return devices[0] if len(devices) == 1 else None
    return jax.local_devices()[0] if jax.config.jax_default_device is None else None
