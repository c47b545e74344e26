"""Peak rates of accelerators, from their makers' data sheets, and machines to compile for without having them."""

import contextlib
import os
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import jax

from flax_transformer.common.errors import UserError, nearest
from flax_transformer.common.installing import install_command, pip_install


class Chip(NamedTuple):
    """Peak rates of one device as JAX counts them; from TPU v4 on that is a chip."""

    flops: float  # FLOP/s in dense matrix products in bfloat16; a multiply-add counts as two
    memory: float  # bytes that a program may use
    bandwidth: float  # bytes/s from and to that memory
    links: float  # bytes/s that one chip sends to others of its slice or host, over all links; 0: unknown


# cloud.google.com/tpu/docs/v4, v5e, v5p and v6e, "key specifications"; links are half of the bidirectional bandwidth.
# Memory is what libtpu 0.0.52 lets a program use: the system keeps a little.
TPUS = {
    'v4': Chip(275e12, 30.75 * 2**30, 1228e9, 300e9),
    'v5e': Chip(197e12, 15.75 * 2**30, 819e9, 200e9),
    'v5p': Chip(459e12, 95.73 * 2**30, 2765e9, 600e9),
    'v6e': Chip(918e12, 31.24 * 2**30, 1638e9, 400e9),
}

# GPUs: NVIDIA's data sheets of A100 (2021), H100 (2023), H200 (2024), L4 and L40S (2023), B200 (HGX, 2024), Ada
# (GeForce RTX 4090, bfloat16 with float32 accumulation); figures without sparsity. Links: NVLink, one way.
_GPUS = {
    'NVIDIA A100-SXM4-40GB': Chip(312e12, 40e9, 1555e9, 300e9),
    'NVIDIA A100-SXM4-80GB': Chip(312e12, 80e9, 2039e9, 300e9),
    'NVIDIA A100 80GB PCIe': Chip(312e12, 80e9, 1935e9, 0),
    'NVIDIA H100 80GB HBM3': Chip(989e12, 80e9, 3350e9, 450e9),
    'NVIDIA H100 PCIe': Chip(756e12, 80e9, 2000e9, 0),
    'NVIDIA H200': Chip(989e12, 141e9, 4800e9, 450e9),
    'NVIDIA B200': Chip(2250e12, 180e9, 7700e9, 900e9),
    'NVIDIA L4': Chip(121e12, 24e9, 300e9, 0),
    'NVIDIA L40S': Chip(362e12, 48e9, 864e9, 0),
    'NVIDIA GeForce RTX 4090': Chip(165e12, 24e9, 1008e9, 0),
}


def find_chip(device_kind: str) -> Chip | None:
    """The chip named by `jax.Device.device_kind`; None if it is not in the table.

    >>> find_chip('TPU v5 lite').flops
    197000000000000.0
    """
    # Some versions call v5e `TPU v5 lite`, v5p `TPU v5` and v6e `TPU v6 lite`.
    generation = device_kind.removeprefix('TPU ').replace(' lite', 'e')
    return _GPUS.get(device_kind) or TPUS.get('v5p' if generation == 'v5' else generation)


def peak_flops(device_kind: str, dtype: str = 'bfloat16') -> float | None:
    """Peak FLOP/s of one device, by its data sheet; None if unknown.

    Only bfloat16 on accelerators is known: in float32 the peak depends on how far products may be rounded.
    """
    chip = find_chip(device_kind)
    return chip.flops if chip and dtype == 'bfloat16' else None


LOCAL = 'local'
_PLANE = ('1x1', '2x2', '2x4', '4x4', '4x8', '8x8', '8x16', '16x16')
_CUBES = ('2x2x1', '2x2x2', '2x2x4', '2x4x4', '4x4x4', '4x4x8', '4x8x8', '8x8x8')
# What Google Cloud offers, up to 512 chips. Other shapes are refused: with some of them libtpu ends the process.
SHAPES = {'v4': _CUBES, 'v5e': _PLANE, 'v5p': _CUBES, 'v6e': _PLANE}

GPUS = [f'h100:{count}' for count in (1, 2, 4, 8)]  # one host has 8 at most
# What compiling for GPUs takes, of CUDA 13 or 12.
_CUDA = (
    ('jax-cuda13-plugin', 'jax-cuda13-pjrt', 'nvidia-cuda-nvcc', 'nvidia-cudnn-cu13'),
    ('jax-cuda12-plugin', 'jax-cuda12-pjrt', 'nvidia-cuda-nvcc-cu12', 'nvidia-cudnn-cu12'),
)


def prepare_compiler() -> None:
    """Keeps JAX and libtpu from searching for TPUs for minutes; to be called before JAX touches its devices."""
    os.environ.setdefault('TPU_SKIP_MDS_QUERY', '1')
    os.environ.setdefault('TPU_MIN_LOG_LEVEL', '3')
    os.environ.setdefault('ALLOW_MULTIPLE_LIBTPU_LOAD', '1')  # compiling does not need the machine to itself
    jax.config.update('jax_platforms', 'cpu')


def topology_devices(name: str) -> list[jax.Device]:
    """The devices of a slice such as v5e:4x4, or GPUs such as h100:8, to compile for."""
    known = [f'{generation}:{shape}' for generation, shapes in SHAPES.items() for shape in shapes] + GPUS
    if name not in known:
        lines = '\n'.join(f'  {generation}:' + ', '.join(shapes) for generation, shapes in SHAPES.items())
        raise UserError(
            f'topology {name!r}: expected {LOCAL}, GPUs of a host ({", ".join(GPUS)}) or a slice of TPUs:\n{lines}\n'
            + nearest(name, known).strip()
        )
    is_gpu = name in GPUS
    if not any(all(map(_is_installed, packages)) for packages in (_CUDA if is_gpu else [('libtpu',)])):
        remedy = install_command('cuda13' if is_gpu else 'tpu')
        if not is_gpu:
            remedy += f', or it alone: {pip_install("libtpu")}'
        raise UserError(f'topology {name}: the compiler for {"GPUs" if is_gpu else "TPUs"} is not installed: {remedy}')
    from jax.experimental import topologies

    with _silence():
        if is_gpu:
            described = Path(__file__).with_name('h100.txtpb').read_text('utf-8')  # for XLA's compiler
            layout = {'topology': f'1x1x{name.partition(":")[2]}', 'target_config': described}  # slices, hosts, devices
            return topologies.get_topology_desc('h100', 'cuda', **layout).devices
        # Both cores of a v4 chip are one device, as on real machines.
        options = {'chip_config_name': 'megacore'} if name.startswith('v4:') else {}
        return topologies.get_topology_desc(platform='tpu', topology_name=name, **options).devices


def _is_installed(package: str) -> bool:
    try:
        metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return False
    return True


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
