"""TPU slices by name, as devices to compile for without having them."""

import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterator

import jax

from flax_transformer.common.errors import UserError, nearest
from flax_transformer.common.installing import install_command, pip_install

LOCAL = 'local'
_PLANE = ('1x1', '2x2', '2x4', '4x4', '4x8', '8x8', '8x16', '16x16')
_CUBES = ('2x2x1', '2x2x2', '2x2x4', '2x4x4', '4x4x4', '4x4x8', '4x8x8', '8x8x8')
# What Google Cloud offers, up to 512 chips. Other shapes are refused: with some of them libtpu ends the process.
SHAPES = {'v4': _CUBES, 'v5e': _PLANE, 'v5p': _CUBES, 'v6e': _PLANE}


def prepare_compiler() -> None:
    """Keeps JAX and libtpu from searching for TPUs for minutes; call it before JAX touches its devices."""
    os.environ.setdefault('TPU_SKIP_MDS_QUERY', '1')
    os.environ.setdefault('TPU_MIN_LOG_LEVEL', '3')
    os.environ.setdefault('ALLOW_MULTIPLE_LIBTPU_LOAD', '1')  # compiling does not need the machine to itself
    jax.config.update('jax_platforms', 'cpu')


def topology_devices(name: str) -> list[jax.Device]:
    """The devices of a slice such as v5e:4x4, to compile for.

    Raises UserError if the slice is unknown or the compiler missing.
    """
    known = [f'{generation}:{shape}' for generation, shapes in SHAPES.items() for shape in shapes]
    if name not in known:
        lines = '\n'.join(f'  {generation}:' + ', '.join(shapes) for generation, shapes in SHAPES.items())
        raise UserError(
            f'topology {name!r}: expected {LOCAL} (the devices that are here) or a slice of TPUs:\n{lines}\n'
            + nearest(name, known).strip()
        )
    if importlib.util.find_spec('libtpu') is None:
        raise UserError(
            f'topology {name}: the compiler for TPUs is not installed: {install_command("tpu")}, or it alone: '
            + pip_install('libtpu')
        )
    from jax.experimental import topologies

    # Both cores of a v4 chip are one device, as on real machines.
    options = {'chip_config_name': 'megacore'} if name.startswith('v4:') else {}
    with _silence():
        return topologies.get_topology_desc(platform='tpu', topology_name=name, **options).devices


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Drops everything written to standard error: libtpu complains at length that there is no TPU."""
    sys.stderr.flush()
    with open(os.devnull, 'w') as nothing, os.fdopen(os.dup(2), 'w') as stderr:
        os.dup2(nothing.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr.fileno(), 2)
