"""Why JAX does not start on the kind of device that it was asked to use."""

import importlib.util

import jax

from flax_transformer.common.errors import nearest
from flax_transformer.common.installing import install_command

_EXTRAS = {'cuda': 'cuda', 'gpu': 'cuda', 'tpu': 'tpu'}  # by JAX's name of the platform
_PACKAGES = {
    'cuda': ('jax_cuda12_plugin', 'jax_cuda13_plugin'),
    'tpu': ('libtpu',),
}  # that an extra brings, one of them
_KNOWN = ('cpu', 'cuda', 'gpu', 'rocm', 'tpu')


def missing_platform() -> str | None:
    """A sentence on the platforms in JAX_PLATFORMS, and what to do, if JAX cannot start with them; else None."""
    asked = jax.config.jax_platforms
    if not asked or _start() is not None:
        return None
    jax.config.update('jax_platforms', None)
    devices = _start() or []
    here = f'{len(devices)} {devices[0].platform} device{"s" * (len(devices) > 1)}' if devices else 'no other'
    names = [name for name in asked.split(',') if name and name != 'cpu']
    unknown = [name for name in names if name not in _KNOWN]
    if unknown:
        expected = f'expected {", ".join(_KNOWN)}, or several of them with commas.{nearest(unknown[0], _KNOWN)}'
        return f'JAX_PLATFORMS={asked}: {expected} Here JAX finds {here}'
    return f'JAX_PLATFORMS={asked}: JAX finds no such device here, but {here}; unset it, or {_remedy(names)}'


def _start() -> list[jax.Device] | None:
    """The devices of the platforms that are set; None if JAX cannot start. Its errors differ by platform."""
    try:
        return jax.devices()
    except Exception:
        return None


def _remedy(names: list[str]) -> str:
    extra = next((_EXTRAS[name] for name in names if name in _EXTRAS), None)
    if extra is None:
        return "install that platform's plugin for JAX"
    if any(importlib.util.find_spec(package) for package in _PACKAGES[extra]):
        return 'look for the device and its driver: what JAX needs is installed'
    return f'install what it needs: {install_command(extra)}'
