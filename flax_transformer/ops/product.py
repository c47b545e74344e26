"""What layers do with a weight: multiply by it, look up its rows, add it to rows.

Parameters are float32, and are cast to the dtype of computation here. `product` is x W in one einsum, but

- with few rows in float32, as in decoding: XLA for CPUs is faster with the rows as right operand of a table, or of a
  weight that is stored `Transposed` (decoding_weights.py); of another weight, with a single row in blocks;
- in bfloat16: products round the weight, but its gradient, a sum over all tokens of a batch, stays in float32, as eight
  bits would lose most of a long sum. `Rounded` holds both forms of a weight, for a loop that would round at each turn;
- with eight bits, for decoding (int8.py).

Attention multiplies activations. Both do it by `mixed_einsum`, whose products and their gradients are `float32_sums`.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental.layout import Layout, with_layout_constraint
from jax.sharding import PartitionSpec as P

from .decoding_weights import Transposed
from .gpu import has_bfloat16
from .int8 import Int8, int8_product


class Rounded(NamedTuple):
    """A float32 weight and what products in bfloat16 read."""

    exact: jax.Array  # gets the gradient
    rounded: jax.Array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.exact.shape


Weight = jax.Array | Int8 | Rounded | Transposed
Arrays = tuple[jax.Array, ...]
Dtypes = tuple[jnp.dtype, jnp.dtype, jnp.dtype]  # of an einsum's result, left and right


def product(x: jax.Array, weight: Weight, *, axis: int = 0, dtype: jnp.dtype | None = None) -> jax.Array:
    """x W, [..., F], of x [..., D] and a weight [D, F], or [F, D] with axis 1, that of D.

    The result has the dtype of x, or `dtype`: logits are float32 even where x is bfloat16.
    """
    if isinstance(weight, Transposed):
        return product(x, weight.rows, axis=1 - axis, dtype=dtype)

    rows = 'ABCE'[: x.ndim - 1]
    axes = f'{rows}D,VD->{rows}V' if axis == 1 else f'{rows}D,DF->{rows}F'
    result = dtype or x.dtype
    if isinstance(weight, Int8):
        return int8_product(x, weight, axis).astype(result)
    if isinstance(weight, Rounded) or x.dtype != jnp.float32:
        return _einsum(axes, x, weight, result)

    num_rows = x.shape[0] if x.ndim == 2 and isinstance(x.shape[0], int) else 0  # symbolic in an export
    if axis == 0 and num_rows == 1 and len(weight) % 2 == 0 and dtype is None:
        return _single_row(x, weight)
    most = 256 if len(weight) >= 4096 else 64  # no faster with more rows
    if axis == 1 and 1 <= num_rows <= most and jax.default_backend() == 'cpu':
        return _few_rows(x, weight, result)
    return _einsum(axes, x, weight, result)


def products(rows: jax.Array, weights: Sequence[Weight]) -> list[jax.Array]:
    """[N, F] for each weight [D, F], in one product of floats: they are stacked, which pays for many rows."""
    if any(isinstance(weight, Int8 | Transposed) for weight in weights):
        return [product(rows, weight) for weight in weights]
    # Stacked on an axis of their own, not concatenated: features that are sharded over devices stay where they are.
    together = _einsum('ND,DMF->NMF', rows, jnp.stack(weights, axis=1), rows.dtype)
    return [together[:, number] for number in range(len(weights))]


def look_up(table: Weight, ids: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """Rows [..., D] of a table [V, D], for ids [...]."""
    if isinstance(table, Int8):
        return (table.values[ids] * table.scale[ids][..., None]).astype(dtype)
    if 'fsdp' in jax.sharding.get_abstract_mesh().auto_axes:
        # Split rows would give vectors split along D over `fsdp`, over which the batch is split too: XLA would gather
        # the vectors of the whole batch on every device, and say so ("involuntary full rematerialization").
        table = jax.lax.with_sharding_constraint(table, P(P.UNCONSTRAINED, None))
    return table[ids].astype(dtype)  # cast last, so that the gradient adds up float32


def add_to_rows(x: jax.Array, vector: jax.Array) -> jax.Array:
    """x [..., D] plus a vector that broadcasts to its shape, in the dtype of x."""
    return x + jnp.broadcast_to(vector, x.shape).astype(x.dtype)  # cast last, as above


def resolve_dtype(config: Any, platform: str | None = None) -> Any:
    """A model's config with a concrete dtype for a platform, by default JAX's.

    'auto' is bfloat16, but float32 on CPUs, and on GPUs if the one here lacks bfloat16.
    """
    if config.dtype != 'auto':
        return config
    here = jax.default_backend()
    platform = platform or here
    lacks_bfloat16 = platform == here == 'gpu' and not has_bfloat16(jax.local_devices()[0])
    return replace(config, dtype='float32' if platform == 'cpu' or lacks_bfloat16 else 'bfloat16')


def _einsum(axes: str, x: jax.Array, weight: jax.Array | Rounded, dtype: jnp.dtype) -> jax.Array:
    """The product in the dtype of x, as `dtype`."""
    if isinstance(weight, Rounded):
        return mixed_einsum(axes, x, weight.exact, dtype, rounded=weight.rounded)
    if x.dtype == jnp.float32:
        return jnp.einsum(axes, x, weight.astype(x.dtype), preferred_element_type=dtype)
    return mixed_einsum(axes, x, weight, dtype, rounded=jax.lax.stop_gradient(weight).astype(x.dtype))


# Few rows, on CPUs.


def _single_row(x: jax.Array, weight: jax.Array) -> jax.Array:
    """x W of x [1, D], in blocks of D that are added up: up to 1.8 times as fast."""
    blocks = math.gcd(len(weight), 4)
    parts = weight.astype(x.dtype).reshape(blocks, -1, weight.shape[1])
    sums = jnp.einsum('BD,BDF->BF', x.reshape(blocks, -1), parts, preferred_element_type=jnp.float32)
    return sums.sum(axis=0, keepdims=True).astype(x.dtype)


def _few_rows(x: jax.Array, weight: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """x [N, D] times the rows of a weight [F, D], with the weight as left operand: up to three times as fast.

    XLA rearranges the right operand in memory for each product, which takes as long as the product of a few rows.
    Without the axis B, of length one, it would swap the operands.
    """
    columns = jnp.einsum('ND,BFD->BNF', x, weight.astype(x.dtype)[None], preferred_element_type=dtype)
    return columns.swapaxes(0, 1).reshape(len(x), len(weight))


# Products in bfloat16, and their gradients.


def round_once(params: Any, dtype: jnp.dtype) -> Any:
    """The tree with each matrix as a `Rounded`, unless the dtype is float32."""
    if jnp.finfo(dtype).bits == 32:
        return params

    def rounded(x: jax.Array) -> jax.Array | Rounded:
        return Rounded(x, jax.lax.stop_gradient(x).astype(dtype)) if x.ndim > 1 else x

    return jax.tree.map(rounded, params)


def mixed_einsum(
    axes: str, left: jax.Array, right: jax.Array, dtype: jnp.dtype | None = None, *, rounded: jax.Array | None = None
) -> jax.Array:
    """An einsum whose products are in the dtype of `right`, or of its `rounded` form; the result is in `dtype` or that.

    Gradients are products in that dtype too, summed in float32. That of `right` has its own dtype, and is not rounded
    where `right` is float32.
    """
    rounded = right if rounded is None else rounded
    dtype = jnp.dtype(dtype or rounded.dtype)
    if left.dtype == rounded.dtype == dtype == jnp.float32:
        return jnp.einsum(axes, left, right)
    return _mixed_einsum(axes, (dtype, left.dtype, right.dtype), left, right, rounded)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _mixed_einsum(axes: str, dtypes: Dtypes, left: jax.Array, right: jax.Array, rounded: jax.Array) -> jax.Array:
    return _mixed_forward(axes, dtypes, left, right, rounded)[0]


def _mixed_forward(
    axes: str, dtypes: Dtypes, left: jax.Array, _: jax.Array, rounded: jax.Array
) -> tuple[jax.Array, Arrays]:
    left = left.astype(rounded.dtype)
    return float32_sums(axes, left, rounded).astype(dtypes[0]), (left, rounded)


def _mixed_backward(axes: str, dtypes: Dtypes, kept: Arrays, grad: jax.Array) -> tuple[jax.Array, jax.Array, None]:
    """The gradient of a float32 result, such as logits, is rounded first: float32 takes several times as long."""
    left, right = kept
    grad = grad.astype(right.dtype)
    operands, result = axes.split('->')
    left_axes, right_axes = operands.split(',')
    grad_left = float32_sums(f'{result},{right_axes}->{left_axes}', grad, right)
    # First the operand that has the gradient's first axis, so that the product need not be transposed.
    leading = next(axis for axis in right_axes if axis not in left_axes or axis not in result)
    if leading in left_axes:
        grad_right = float32_sums(f'{left_axes},{result}->{right_axes}', left, grad)
    else:
        grad_right = float32_sums(f'{result},{left_axes}->{right_axes}', grad, left)
    return grad_left.astype(dtypes[1]), grad_right.astype(dtypes[2]), None


_mixed_einsum.defvjp(_mixed_forward, _mixed_backward)


def float32_sums(axes: str, left: jax.Array, right: jax.Array) -> jax.Array:
    """An einsum of two arrays in bfloat16 whose sums are float32."""
    einsum = partial(jnp.einsum, axes, preferred_element_type=jnp.float32)
    if not all(isinstance(size, int) for size in (*left.shape, *right.shape)):  # symbolic in an export
        return einsum(left, right)
    return jax.lax.platform_dependent(left, right, cpu=partial(_sums_on_cpus, axes), default=einsum)


def _sums_on_cpus(axes: str, left: jax.Array, right: jax.Array) -> jax.Array:
    """The einsum in the only form for which XLA for CPUs has fast products of bfloat16 (JAX 0.10).

    The result is float32; the left operand is summed over its last axes in memory, and has several rows. XLA converts
    others to float32 first, or fails.
    """
    operands, result = axes.split('->')
    left_axes, right_axes = operands.split(',')
    shared = [axis for axis in left_axes if axis in right_axes and axis in result]
    rows = [axis for axis in left_axes if axis not in right_axes]
    summed = [axis for axis in left_axes if axis in right_axes and axis not in result]
    columns = [axis for axis in right_axes if axis not in left_axes]

    if [*shared, *rows, *summed] != [*left_axes]:
        left = jnp.transpose(left, [left_axes.index(axis) for axis in (*shared, *rows, *summed)])
        left = _row_major(left)  # else the transposition is only another reading of the same memory
    is_single = rows and left.shape[len(shared) : -len(summed)] == (1,) * len(rows)
    if is_single:
        left = jnp.pad(left, [(0, int(axis == rows[0])) for axis in (*shared, *rows, *summed)])

    batch = tuple(range(len(shared))), tuple(map(right_axes.index, shared))
    along = tuple(range(left.ndim - len(summed), left.ndim)), tuple(map(right_axes.index, summed))
    sums = jax.lax.dot_general(left, right, (along, batch), preferred_element_type=jnp.float32)
    if is_single:
        sums = sums[(slice(None),) * len(shared) + (slice(1),)]
    found = [*shared, *rows, *columns]
    if found != [*result]:
        sums = jnp.transpose(_row_major(sums), [found.index(axis) for axis in result])
    return sums


def _row_major(x: jax.Array) -> jax.Array:
    return with_layout_constraint(x, Layout(tuple(range(x.ndim))))


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def rounded_softmax(scores: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """The softmax of float32 scores over their last axis, in `dtype`; its gradient keeps no other weights."""
    return jax.nn.softmax(scores, axis=-1).astype(dtype)


def _softmax_forward(scores: jax.Array, dtype: jnp.dtype) -> Arrays:
    weights = rounded_softmax(scores, dtype)
    return weights, weights


def _softmax_backward(_: jnp.dtype, weights: jax.Array, grad: jax.Array) -> tuple[jax.Array]:
    weights, grad = weights.astype(jnp.float32), grad.astype(jnp.float32)
    return ((grad - (grad * weights).sum(axis=-1, keepdims=True)) * weights,)


rounded_softmax.defvjp(_softmax_forward, _softmax_backward)
