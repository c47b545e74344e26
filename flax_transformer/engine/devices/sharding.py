"""Which part of the state lies on which device of a mesh: one table, from paths to axes.

A mesh has three axes. The rows of a batch are dealt out over `data` and `fsdp`. Along `fsdp` parameters are cut too
(fully sharded data parallelism): a device holds a part, and is sent the rest of a matrix when it needs it. Along
`tensor` the matrices are cut, not the rows, as in Megatron-LM (Shoeybi et al. 2019, section 3): of the first matrix of
a pair the columns, of the second the rows: what lies between the two, heads and inner units, is never exchanged.

What the optimiser keeps of a parameter, and the moving average, is cut as the parameter is.
"""

import math
import re
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from flax_transformer.common.errors import UserError
from flax_transformer.common.trees import named_leaves, path_name

DATA, FSDP, TENSOR = AXES = ('data', 'fsdp', 'tensor')

# (end of a parameter's path, the axis that each of its dimensions is cut along); the first that matches counts.
RULES: tuple[tuple[str, P], ...] = (
    # Vocabulary by d_model: pieces over tensor, so that each device has logits of its own pieces only.
    (r'embedding/table', P(TENSOR, FSDP)),
    (r'positions/table', P(None, FSDP)),
    (r'projection', P(FSDP, TENSOR)),
    (r'logits_bias', P(TENSOR)),
    # Attention: each device of the tensor axis has some of the heads. [d_model, heads * width], then back.
    (r'attention/(query|key|value)/kernel', P(FSDP, TENSOR)),
    (r'attention/(query|key|value)/bias', P(TENSOR)),
    (r'attention/output/kernel', P(TENSOR, FSDP)),
    # Feed-forward: some of the inner units. [d_model, d_ff], then back.
    (r'feed_forward/inner/kernel', P(FSDP, TENSOR)),
    (r'feed_forward/inner/bias', P(TENSOR)),
    (r'feed_forward/outer/kernel', P(TENSOR, FSDP)),
    # Vectors of d_model values: too small to be cut.
    (r'(output|outer)/bias', P()),
    (r'norm/(scale|bias)', P()),
)
ROWS = P((DATA, FSDP))  # of a batch; each device of the tensor axis has the same


def spec_of(path: str, shape: tuple[int, ...]) -> P:
    """The axes of a parameter by its path, such as encoder/layers_0/feed_forward/inner/kernel.

    Raises UserError, with the table, where no rule matches.
    """
    for pattern, spec in RULES:
        if re.search(rf'(^|[/_]){pattern}$', path) and len(spec) <= len(shape):
            return spec
    table = '\n'.join(f'  {pattern:40} {spec}' for pattern, spec in RULES)
    raise UserError(f'no sharding rule matches {path} {shape}; add one to RULES in sharding.py:\n{table}')


def fitted(spec: P, shape: tuple[int, ...], mesh: Mesh) -> P:
    """The spec without axes that do not divide their dimension: that dimension stays whole on every device.

    A vocabulary of 20 pieces on 8 devices is no reason not to train; `left_whole` tells of it.
    """
    return P(*(name if size % _size(mesh, name) == 0 else None for name, size in zip(spec, shape, strict=False)))


def left_whole(params: Any, mesh: Mesh) -> list[str]:
    """What `fitted` does not cut though the table says so, a line each."""
    found = []
    for path, leaf in named_leaves(params):
        for axis, (name, size) in enumerate(zip(spec_of(path, leaf.shape), leaf.shape, strict=False)):
            if size % _size(mesh, name):
                found.append(f'{path} {leaf.shape}: {size} along dimension {axis}, {name} has {mesh.shape[name]}')
    return found


def state_shardings(state: Any, params: Any, mesh: Mesh) -> Any:
    """The sharding of every leaf of a state, from arrays or shapes.

    A leaf whose path ends with that of one of `params`, and which has its shape, is cut as that parameter is: moments
    and averages. Others are whole on every device: counts, and the moments that Adafactor keeps of rows and columns.
    """
    specs = {
        path: (leaf.shape, fitted(spec_of(path, leaf.shape), leaf.shape, mesh)) for path, leaf in named_leaves(params)
    }

    def sharding(path: Any, leaf: Any) -> NamedSharding:
        names = path_name(path).split('/')
        for first in range(len(names)):
            shape, spec = specs.get('/'.join(names[first:]), (None, P()))
            if shape is not None:
                return NamedSharding(mesh, spec if shape == leaf.shape else P())
        return NamedSharding(mesh, P())

    return jax.tree_util.tree_map_with_path(sharding, state)


def bytes_per_device(tree: Any) -> int:
    """Of arrays or shapes with shardings, what one device holds."""
    return sum(math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def _size(mesh: Mesh, name: str | None) -> int:
    return 1 if name is None else mesh.shape[name]
