"""Which device takes which place in a mesh, and which rows of a batch each process then holds.

Devices exchange most along the tensor axis, less along fsdp, and least along data.
"""

import math
from collections import Counter
from collections.abc import Sequence

import jax
import numpy as np
from jax.experimental import mesh_utils

from flax_transformer.common.errors import UserError


def lay_out(devices: Sequence[jax.Device], shape: tuple[int, int, int]) -> np.ndarray:
    """The devices as an array [data, fsdp, tensor] of `shape`, those that exchange most close together.

    Within a TPU slice JAX follows the torus, so a process's devices need not be consecutive. Where there are several
    slices (to XLA, GPU hosts are slices too), data is split over them first, then fsdp, and tensor last.

    Raises UserError if the slices differ in size and some fsdp x tensor group would not fit inside one.
    """
    counts = [len(each) for each in _by_slice(devices)]
    if len(set(counts)) > 1:
        group = math.prod(shape[1:])
        if any(count % group for count in counts):
            raise UserError(
                f'parallel.fsdp={shape[1]}, tensor={shape[2]}: groups of {group} devices do not fit into slices (or '
                f'GPU hosts) of {", ".join(map(str, counts))}; expected fsdp * tensor to divide each, or equal slices'
            )
        return _in_order(devices, shape)
    try:
        if len(counts) == 1:
            return mesh_utils.create_device_mesh(shape, devices, allow_split_physical_axes=True)
        outer = _across_slices(shape, len(counts))
        inner = tuple(size // slices for size, slices in zip(shape, outer, strict=True))
        return mesh_utils.create_hybrid_device_mesh(inner, outer, devices, allow_split_physical_axes=True)
    except (NotImplementedError, ValueError, AssertionError):
        return _in_order(devices, shape)  # JAX knows no good order, for instance for three of a host's four chips


def in_process_order(devices: Sequence[jax.Device]) -> list[jax.Device]:
    """The devices of process 0, then those of process 1 and so on: pmap needs those of a process to be consecutive.

    Raises UserError if some process has more devices than another, which pmap cannot use.
    """
    counts = Counter(sorted(device.process_index for device in devices))
    if len(set(counts.values())) > 1:
        raise UserError(
            f"parallel.strategy='pmap': the processes have {', '.join(map(str, counts.values()))} devices; expected "
            'the same number in each; use parallel.strategy=mesh'
        )
    return sorted(devices, key=lambda device: device.process_index)


def rows_of_process(devices: np.ndarray, process: int, rows: int) -> np.ndarray:
    """The numbers, in ascending order, of those of a batch's `rows` rows that a process's devices hold.

    `devices` is [data, fsdp, tensor]; rows are split over the first two axes. Processes that share a tensor group hold
    the same rows.
    """
    is_own = np.vectorize(lambda device: device.process_index == process, otypes=[bool])(devices)
    parts = is_own.any(axis=2).reshape(-1)
    return np.flatnonzero(np.repeat(parts, rows // len(parts)))


def _by_slice(devices: Sequence[jax.Device]) -> list[list[jax.Device]]:
    """The devices of each slice; those that know of no slices, such as CPUs, are all of one."""
    slices: dict[int, list[jax.Device]] = {}
    for device in devices:
        slices.setdefault(getattr(device, 'slice_index', 0), []).append(device)
    return list(slices.values())


def _across_slices(shape: tuple[int, ...], slices: int) -> tuple[int, ...]:
    """Over how many slices each axis extends: the first as far as it can, then the next.

    >>> _across_slices((4, 4, 1), 2), _across_slices((1, 16, 1), 2), _across_slices((2, 1, 32), 4)
    ((2, 1, 1), (1, 2, 1), (2, 1, 2))
    """
    outer = []
    for size in shape:
        outer.append(math.gcd(size, slices))
        slices //= outer[-1]
    return tuple(outer)


def _in_order(devices: Sequence[jax.Device], shape: tuple[int, ...]) -> np.ndarray:
    """By slice, process and number."""
    key = lambda device: (getattr(device, 'slice_index', 0), device.process_index, device.id)
    return np.array(sorted(devices, key=key), object).reshape(shape)
