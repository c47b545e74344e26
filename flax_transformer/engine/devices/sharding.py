"""Lays devices and the parts of a train state out on a mesh, by one table of rules from parameter paths to axes.

A mesh has three axes. The rows of a batch are split over `data` and `fsdp`. Along `fsdp`, parameters are split too
(fully sharded data parallelism): a device gathers the rest of a matrix when it needs it. Along `tensor`, matrices are
split but rows are not, as in Megatron-LM (Shoeybi et al. 2019, section 3). Devices exchange most along `tensor` and
least along `data`, so those of a tensor group should be closest together.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from flax_transformer.common.errors import UserError
from flax_transformer.common.trees import named_leaves, path_name

DATA, FSDP, TENSOR = AXES = ('data', 'fsdp', 'tensor')
ROWS = P((DATA, FSDP))  # how a batch is split; devices along the tensor axis hold the same rows

# (regular expression for the end of a parameter's path, the mesh axis of each dimension); the first match wins.
Rules = Sequence[tuple[str, P]]


def spec_of(path: str, shape: tuple[int, ...], rules: Rules) -> P:
    """The mesh axes of a parameter by its path."""
    for pattern, spec in rules:
        if re.search(rf'(^|[/_]){pattern}$', path) and len(spec) <= len(shape):
            return spec
    table = '\n'.join(f'  {pattern:40} {spec}' for pattern, spec in rules)
    raise UserError(f"no sharding rule matches {path} {shape}; add one to the task's sharding rules:\n{table}")


def divisible_spec(spec: P, shape: tuple[int, ...], mesh: Mesh) -> P:
    """The spec without axes that do not divide their dimension, as a vocabulary of 20 pieces on 8 devices."""
    return P(*(name if size % _size(mesh, name) == 0 else None for name, size in zip(spec, shape, strict=False)))


def replicated_despite_rule(params: Any, mesh: Mesh, rules: Rules) -> list[str]:
    """The dimensions that the rules would split but `divisible_spec` does not, one line each."""
    lines = []
    for path, leaf in named_leaves(params):
        for axis, (name, size) in enumerate(zip(spec_of(path, leaf.shape, rules), leaf.shape, strict=False)):
            if size % _size(mesh, name):
                lines.append(f'{path} {leaf.shape}: {size} along dimension {axis}, {name} has {mesh.shape[name]}')
    return lines


def state_shardings(state: Any, params: Any, mesh: Mesh, rules: Rules) -> Any:
    """The sharding of every leaf of a state, from arrays or shapes.

    A leaf whose path ends with a parameter's and that has its shape (a moment, an average) is split like it; counts,
    and Adafactor's rows and columns, are replicated.
    """
    specs = {}
    for path, leaf in named_leaves(params):
        specs[path] = leaf.shape, divisible_spec(spec_of(path, leaf.shape, rules), leaf.shape, mesh)

    def sharding(path: Any, leaf: Any) -> NamedSharding:
        names = path_name(path).split('/')
        for first in range(len(names)):
            shape, spec = specs.get('/'.join(names[first:]), (None, P()))
            if shape is not None:
                return NamedSharding(mesh, spec if shape == leaf.shape else P())
        return NamedSharding(mesh, P())

    return jax.tree_util.tree_map_with_path(sharding, state)


def bytes_per_device(tree: Any) -> int:
    return sum(math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def _size(mesh: Mesh, name: str | None) -> int:
    return 1 if name is None else mesh.shape[name]


def lay_out(devices: Sequence[jax.Device], shape: tuple[int, int, int]) -> np.ndarray:
    """The devices as an array [data, fsdp, tensor] of `shape`, those that exchange most close together.

    Within a TPU slice JAX follows the torus, so a process's devices need not be consecutive. Where there are several
    slices (to XLA, GPU hosts are slices too), data is split over them first, then fsdp, and tensor last.
    """
    slices = len({_slice_of(device) for device in devices})
    outer = _across_slices(shape, slices)
    inner = tuple(size // parts for size, parts in zip(shape, outer, strict=True))
    try:
        if slices == 1:
            return mesh_utils.create_device_mesh(shape, devices, allow_split_physical_axes=True)
        return mesh_utils.create_hybrid_device_mesh(inner, outer, devices, allow_split_physical_axes=True)
    except (NotImplementedError, ValueError, AssertionError):
        # JAX knows no good order, for instance for three of a host's four chips, or for slices of several sizes.
        in_order = sorted(devices, key=lambda device: (_slice_of(device), device.process_index, device.id))
        return np.array(in_order, object).reshape(shape)


def _slice_of(device: jax.Device) -> int:
    return getattr(device, 'slice_index', 0)  # devices without slices, such as CPUs, form one


def in_process_order(devices: Sequence[jax.Device]) -> list[jax.Device]:
    """The devices of process 0, then those of process 1 and so on, as the strategy pmap lays them out."""
    counts = Counter(sorted(device.process_index for device in devices))
    if len(set(counts.values())) > 1:
        raise UserError(
            f"parallel.strategy='pmap': the processes have {', '.join(map(str, counts.values()))} devices; use "
            'parallel.strategy=mesh'
        )
    return sorted(devices, key=lambda device: device.process_index)


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
