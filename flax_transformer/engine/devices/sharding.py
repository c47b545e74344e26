"""Where each part of a train state goes on a mesh of devices: one table of rules, from parameter paths to axes.

A mesh has three axes. The rows of a batch are split over `data` and `fsdp`. Along `fsdp`, parameters are split too
(fully sharded data parallelism): a device stores a part and gathers the rest of a matrix when it needs it. Along
`tensor`, matrices are split but rows are not, as in Megatron-LM (Shoeybi et al. 2019, section 3).

Moments and the moving average are split like their parameter.
"""

import math
import re
from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from flax_transformer.common.errors import UserError
from flax_transformer.common.trees import named_leaves, path_name

DATA, FSDP, TENSOR = AXES = ('data', 'fsdp', 'tensor')
ROWS = P((DATA, FSDP))  # of a batch; the devices of the tensor axis share theirs

# (regular expression for the end of a parameter's path, the mesh axis of each dimension); the first match wins.
Rules = Sequence[tuple[str, P]]


def spec_of(path: str, shape: tuple[int, ...], rules: Rules) -> P:
    """The mesh axes of a parameter by its path, such as encoder/layers_0/feed_forward/inner/kernel.

    Raises UserError, with the table, if no rule matches.
    """
    for pattern, spec in rules:
        if re.search(rf'(^|[/_]){pattern}$', path) and len(spec) <= len(shape):
            return spec
    table = '\n'.join(f'  {pattern:40} {spec}' for pattern, spec in rules)
    raise UserError(f"no sharding rule matches {path} {shape}; add one to the task's sharding rules:\n{table}")


def fitted(spec: P, shape: tuple[int, ...], mesh: Mesh) -> P:
    """The spec without axes that do not divide their dimension: such a dimension is replicated.

    A vocabulary of 20 pieces on 8 devices is no reason not to train; `replicated_despite_rule` reports it.
    """
    return P(*(name if size % _size(mesh, name) == 0 else None for name, size in zip(spec, shape, strict=False)))


def replicated_despite_rule(params: Any, mesh: Mesh, rules: Rules) -> list[str]:
    """The dimensions that the rules would split but `fitted` does not, one line each."""
    found = []
    for path, leaf in named_leaves(params):
        for axis, (name, size) in enumerate(zip(spec_of(path, leaf.shape, rules), leaf.shape, strict=False)):
            if size % _size(mesh, name):
                found.append(f'{path} {leaf.shape}: {size} along dimension {axis}, {name} has {mesh.shape[name]}')
    return found


def state_shardings(state: Any, params: Any, mesh: Mesh, rules: Rules) -> Any:
    """The sharding of every leaf of a state, from arrays or shapes.

    A leaf whose path ends with that of a parameter and that has its shape (a moment or an average) is split like it.
    All others are replicated: counts, and Adafactor's rows and columns.
    """
    specs = {}
    for path, leaf in named_leaves(params):
        specs[path] = leaf.shape, fitted(spec_of(path, leaf.shape, rules), leaf.shape, mesh)

    def sharding(path: Any, leaf: Any) -> NamedSharding:
        names = path_name(path).split('/')
        for first in range(len(names)):
            shape, spec = specs.get('/'.join(names[first:]), (None, P()))
            if shape is not None:
                return NamedSharding(mesh, spec if shape == leaf.shape else P())
        return NamedSharding(mesh, P())

    return jax.tree_util.tree_map_with_path(sharding, state)


def bytes_per_device(tree: Any) -> int:
    """The bytes that one device holds of a tree of sharded arrays, or of shapes with shardings."""
    return sum(math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def _size(mesh: Mesh, name: str | None) -> int:
    return 1 if name is None else mesh.shape[name]
