"""Eight-bit weights for decoding: an integer for each weight and a scale for each output feature.

The inputs of a product are quantized too, with a scale for each row, and integers are summed exactly, in 32 bits
(vector-wise quantization, Dettmers et al. 2022, section 3.1; symmetric, rounded to nearest). Nothing is calibrated.
Where an input is halfway between two integers, its last bits decide: see batch_invariance.py.

x86 processors multiply unsigned by signed bytes (VNNI). Where that is faster (fastest_dtype.py), inputs are raised by
128, and 128 times the sum of each feature's weights is subtracted from the product; the result is the same.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from flax_transformer.common.trees import path_name

from .batch_invariance import is_batch_invariant
from .unsigned_product import integer_product, unsigned_product


class Quantized(NamedTuple):
    """A weight in eight bits. It takes the place of the float array in a tree of parameters."""

    values: jax.Array  # int8, shaped as the float weight
    scale: jax.Array  # float32, by output feature

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape


class Raised(NamedTuple):
    """A `Quantized` for inputs that are raised to be unsigned."""

    values: jax.Array
    scale: jax.Array
    excess: jax.Array  # int32, by output feature: what the raised inputs add to a sum

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape


class InBlocks(NamedTuple):
    """A `Raised` kernel split by columns, or by rows where it has more of them; there is one only within a search."""

    blocks: tuple[jax.Array, ...]  # int8
    scale: jax.Array
    excess: jax.Array

    @property
    def shape(self) -> tuple[int, ...]:
        rows, columns = self.blocks[0].shape
        return (rows if columns < self.scale.size else rows * len(self.blocks)), self.scale.size


Int8 = Quantized | Raised | InBlocks

_RAISED_BY = 128

# With few rows, the largest value of each is found in two steps; the first compares at most so many parts of a row.
_FEW_ROWS = 8
_PARTS = 32

# One thread multiplies few rows by a kernel of at most _BLOCK integers. A model with a kernel of more than
# _MOST_IN_BLOCKS stays whole.
_BLOCK = 1 << 17
_MOST_IN_BLOCKS = 2 * _BLOCK

_INPUT_AXIS = {'kernel': 0, 'projection': 0, 'table': 1}  # the axis of D, by the name of the weight


def to_int8(params: Any) -> Any:
    """The tree with each matrix that inputs are multiplied with as a `Quantized`; biases, norms and positions stay."""
    return with_matrices(params, quantize)


def with_matrices(params: Any, change: Callable[[Any, int], Any]) -> Any:
    """The tree with what `change` makes of each matrix that inputs are multiplied with, and of the axis of D."""

    def changed(path: Any, leaf: Any) -> Any:
        name = path_name(path)
        axis = _INPUT_AXIS.get(name.rpartition('/')[2])
        if axis is None or '_positions/' in name:
            return leaf
        return change(leaf, axis)

    return jax.tree_util.tree_map_with_path(changed, params)


def shapes_in_int8(params: Any) -> Any:
    """The shapes and dtypes of `to_int8(params)`, from those of the parameters."""

    def quantized(x: Any, axis: int) -> Quantized:
        others = [size for i, size in enumerate(x.shape) if i != axis]
        return Quantized(jax.ShapeDtypeStruct(x.shape, jnp.int8), jax.ShapeDtypeStruct(others, jnp.float32))

    return with_matrices(params, quantized)


def from_int8(params: Any, put: Callable[[Any], Any] = lambda x: x) -> Any:
    """The tree with each matrix of eight bits as float32, rounded: inverse of `to_int8`; `put` takes each of them."""

    def restore(path: Any, x: Any) -> Any:
        if not _is_int8(x):
            return x
        axis = _INPUT_AXIS[path[-1].key]
        return put(x.values * x.scale.reshape([1 if i == axis else size for i, size in enumerate(x.shape)]))

    return jax.tree_util.tree_map_with_path(restore, params, is_leaf=_is_int8)


def for_few_rows(weights: Any) -> Any:
    """The tree, within a program, with kernels in blocks that XLA for CPUs multiplies a few rows by in one thread.

    XLA splits larger products among threads. If there are few of these, the other threads fall asleep in between, and
    waking them takes longer than the product. A model with larger kernels keeps them awake, so its tree stays as it is.
    Passing the blocks as arguments of the program was no faster than whole kernels.
    """
    leaves = jax.tree_util.tree_leaves_with_path(weights, is_leaf=_is_int8)
    sizes = [weight.values.size for path, weight in leaves if _is_raised_kernel(path, weight)]
    if max(sizes, default=0) > _MOST_IN_BLOCKS:
        return weights

    def change(path: Any, weight: Any) -> Any:
        return _in_blocks(weight) if _is_raised_kernel(path, weight) else weight

    return jax.tree_util.tree_map_with_path(change, weights, is_leaf=_is_int8)


def _is_raised_kernel(path: Any, weight: Any) -> bool:
    return isinstance(weight, Raised) and path_name(path).endswith('/kernel')


def _in_blocks(weight: Raised) -> Raised | InBlocks:
    inputs, features = weight.shape
    axis = int(features >= inputs)
    count = math.ceil(weight.values.size / _BLOCK)
    if count == 1 or weight.shape[axis] % count:
        return weight
    blocks = jax.lax.optimization_barrier(tuple(jnp.split(weight.values, count, axis)))  # not in the loop
    return InBlocks(blocks, weight.scale, weight.excess)


def for_signed_inputs(weights: Any) -> Any:
    """The tree with each `Raised` as the `Quantized` that it was made of, which every platform multiplies well."""
    return jax.tree.map(lambda x: Quantized(x.values, x.scale) if _is_int8(x) else x, weights, is_leaf=_is_int8)


def has_int8(weights: Any) -> bool:
    return any(map(_is_int8, jax.tree.leaves(weights, is_leaf=_is_int8)))


def _is_int8(x: Any) -> bool:
    return isinstance(x, Int8)


def rounded_where(is_rounded: jax.Array, params: Any) -> Any:
    """The tree as eight bits give it back, if it is to be; with the gradients of what is not rounded."""
    exact = jax.lax.stop_gradient(params)
    rounded = from_int8(to_int8(exact))
    return jax.tree.map(lambda x, y, z: jnp.where(is_rounded, z + (x - y), x), params, exact, rounded)


@jax.jit(static_argnames='axis')
def quantize(x: jax.Array, axis: int) -> Quantized:
    """Integers from -127 to 127 in the shape of x, and scales along the other axes, whose product is nearly x."""
    return _quantized(x, axis, jnp)


def quantize_on_host(x: jax.Array | np.ndarray, axis: int) -> Quantized:
    """What `quantize` gives, by NumPy, on the device of x: XLA would compile for each shape, which takes longer."""
    place = x.sharding if isinstance(x, jax.Array) and x.committed else None
    return Quantized(*(jax.device_put(made, place) for made in _quantized(np.asarray(x), axis, np)))


def _quantized(x: Any, axis: int, numpy: Any) -> Quantized:
    return _scaled(x, axis, numpy.abs(x.astype(numpy.float32)).max(axis=axis, keepdims=True), numpy)


def quantized_inputs(rows: jax.Array) -> Quantized:
    """What `quantize(rows, 1)` gives, with fewer loops for few rows on CPUs: XLA's maximum over a row takes three."""
    is_known = isinstance(rows.shape[0], int)  # symbolic in an export
    if not is_known or rows.shape[0] > _FEW_ROWS or jax.default_backend() != 'cpu':
        return quantize(rows, 1)
    parts = jnp.abs(rows.astype(jnp.float32)).reshape(len(rows), math.gcd(rows.shape[1], _PARTS), -1).max(axis=1)
    parts = jax.lax.optimization_barrier(parts)  # else XLA makes one step of both, and then those loops
    return _scaled(rows, 1, parts.max(axis=1, keepdims=True), jnp)


def _scaled(x: Any, axis: int, largest: Any, numpy: Any) -> Quantized:
    scale = numpy.where(largest == 0, numpy.float32(1), largest * numpy.float32(1 / 127))  # as XLA divides by 127
    return Quantized(numpy.round(x / scale).astype(numpy.int8), scale.squeeze(axis))


def raised(weight: Quantized, axis: int) -> Raised:
    """The weight for unsigned inputs; `axis` is that of D."""
    values = weight.values
    if not isinstance(values, jax.core.Tracer):
        values = np.asarray(values)  # XLA would compile for each shape, which takes longer
    excess = _RAISED_BY * values.sum(axis, dtype=np.int32)
    return Raised(*weight, jax.device_put(excess) if isinstance(excess, np.ndarray) else excess)


def int8_product(x: jax.Array, weight: Int8, axis: int = 0) -> jax.Array:
    """[..., F], float32, of x [..., D] and a weight [D, F], or [F, D] with axis 1, that of D."""
    rows = x.reshape(-1, x.shape[-1])
    is_known = isinstance(rows.shape[0], int)  # symbolic in an export
    is_single = is_known and rows.shape[0] == 1
    integers, row_scale = quantized_inputs(rows)
    if is_single:  # XLA has no fast product of a single row of integers on CPUs
        integers = jnp.pad(integers, ((0, 1), (0, 0)))
        if is_batch_invariant():  # XLA adds up what is made of a single row in an order of its own
            row_scale = jnp.pad(row_scale, (0, 1))

    if isinstance(weight, InBlocks):
        sums = _product_of_blocks(_unsigned(integers), weight.blocks) - weight.excess[None]
    elif isinstance(weight, Raised) and is_known:
        sums = unsigned_product(_unsigned(integers), weight.values, axis) - weight.excess[None]
    else:
        sums = integer_product(integers, weight.values, axis)
    if is_single:
        sums = sums[: len(row_scale)]
    products = sums.astype(jnp.float32) * row_scale[:, None] * weight.scale[None]
    if is_single:
        products = products[:1]
    return products.reshape(*x.shape[:-1], weight.scale.size)


def _unsigned(integers: jax.Array) -> jax.Array:
    return (integers.astype(jnp.int32) + _RAISED_BY).astype(jnp.uint8)


def _product_of_blocks(rows: jax.Array, blocks: Sequence[jax.Array]) -> jax.Array:
    inputs = len(blocks[0])
    if inputs == rows.shape[1]:
        return jnp.concatenate([unsigned_product(rows, block, 0) for block in blocks], axis=1)
    parts = jnp.split(rows, len(blocks), axis=1)
    return sum(unsigned_product(part, block, 0) for part, block in zip(parts, blocks, strict=True))
