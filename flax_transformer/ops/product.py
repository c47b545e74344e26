"""What layers do with a weight: multiply by it, look up its rows, add it to rows.

Parameters are float32, and are cast to the dtype of computation here. `product` is x W in one einsum, but

- with few rows, as in decoding: XLA for CPUs is faster with the weight in blocks;
- in bfloat16 (GPUs, TPUs): products round the weight, but its gradient, a sum over all tokens of a batch, stays in
  float32, as eight bits would lose most of a long sum. JAX's own gradient would have the dtype of x, so
  `_mixed_product` defines one. `Rounded` holds both forms of a weight, for a loop that would round at each turn;
- with `Quantized`, eight bits, for decoding (int8.py).

Attention multiplies activations, which `mixed_einsum` and `rounded_softmax` do under the same rules.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from .int8 import Quantized, int8_product


class Rounded(NamedTuple):
    """A float32 weight and what products in bfloat16 read."""

    exact: jax.Array  # first, as in `Quantized`; gets the gradient
    rounded: jax.Array


Weight = jax.Array | Quantized | Rounded
Arrays = tuple[jax.Array, ...]


def product(x: jax.Array, weight: Weight, *, axis: int = 0, dtype: jnp.dtype | None = None) -> jax.Array:
    """x W, [..., F], of x [..., D] and a weight [D, F], or [F, D] with axis 1, that of D.

    The result has the dtype of x, or `dtype`: logits are float32 even where x is bfloat16.
    """
    axes = '...D,VD->...V' if axis == 1 else '...D,DF->...F'
    result = dtype or x.dtype
    if isinstance(weight, Quantized):
        return int8_product(x, weight, axis).astype(result)
    if isinstance(weight, Rounded):
        return _mixed_product(axes, result, x, *weight)

    num_rows = x.shape[0] if x.ndim == 2 and isinstance(x.shape[0], int) else 0  # symbolic in an export
    if len(weight) % 2 == 0:
        if axis == 0 and num_rows == 1 and dtype is None:
            return _single_row(x, weight)
        if axis == 1 and 1 < num_rows <= 64:
            return _few_rows(x, weight, result)
    return _einsum(axes, x, weight, result)


def products(rows: jax.Array, weights: Sequence[Weight]) -> list[jax.Array]:
    """[N, F] for each weight [D, F], in one product of floats: they are stacked, which pays for many rows."""
    if any(isinstance(weight, Quantized) for weight in weights):
        return [product(rows, weight) for weight in weights]
    # Stacked on an axis of their own, not concatenated: features that are sharded over devices stay where they are.
    together = _einsum('ND,DMF->NMF', rows, jnp.stack(weights, axis=1), rows.dtype)
    return [together[:, number] for number in range(len(weights))]


def look_up(table: Weight, ids: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """Rows [..., D] of a table [V, D], for ids [...]."""
    if isinstance(table, Quantized):
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
    """A model's config with a concrete dtype: 'auto' is float32 on CPUs (by default JAX's), else bfloat16."""
    if config.dtype != 'auto':
        return config
    platform = platform or jax.default_backend()
    return replace(config, dtype='float32' if platform == 'cpu' else 'bfloat16')


def _einsum(axes: str, x: jax.Array, weight: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """The product in the dtype of x, as `dtype`."""
    if weight.dtype == jnp.float32 and jnp.finfo(x.dtype).bits < 32:
        return _mixed_product(axes, dtype, x, *round_once(weight, x.dtype))
    return jnp.einsum(axes, x, weight.astype(x.dtype), preferred_element_type=dtype)


# Few rows, on CPUs.


def _single_row(x: jax.Array, weight: jax.Array) -> jax.Array:
    """x W of x [1, D], in blocks of D that are added up: up to 1.8 times as fast."""
    blocks = math.gcd(len(weight), 4)
    parts = weight.astype(x.dtype).reshape(blocks, -1, weight.shape[1])
    sums = jnp.einsum('BD,BDF->BF', x.reshape(blocks, -1), parts, preferred_element_type=jnp.float32)
    return sums.sum(axis=0, keepdims=True).astype(x.dtype)


def _few_rows(x: jax.Array, table: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """x [N, D] times the rows of a table [V, D], in blocks of V: up to 1.6 times as fast."""
    size, width = table.shape
    blocks = math.gcd(size, 8)
    parts = table.astype(x.dtype).reshape(blocks, size // blocks, width)
    logits = jnp.einsum('ND,BVD->BNV', x, parts, preferred_element_type=dtype)
    return logits.swapaxes(0, 1).reshape(len(x), size)


# Products in bfloat16, with the gradients of float32 weights.


def round_once(params: Any, dtype: jnp.dtype) -> Any:
    """The tree with each matrix as a `Rounded`, unless the dtype is float32."""
    if jnp.finfo(dtype).bits == 32:
        return params

    def rounded(x: jax.Array) -> jax.Array | Rounded:
        return Rounded(x, jax.lax.stop_gradient(x).astype(dtype)) if x.ndim > 1 else x

    return jax.tree.map(rounded, params)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _mixed_product(axes: str, dtype: jnp.dtype, x: jax.Array, exact: jax.Array, rounded: jax.Array) -> jax.Array:
    """As `_einsum`, with a gradient of its own: `jax.jvp` works in float32 only."""
    return _mixed_forward(axes, dtype, x, exact, rounded)[0]


def _mixed_forward(
    axes: str, dtype: jnp.dtype, x: jax.Array, _: jax.Array, rounded: jax.Array
) -> tuple[jax.Array, Arrays]:
    return jnp.einsum(axes, x, rounded, preferred_element_type=dtype), (x, rounded)


def _mixed_backward(
    axes: str, dtype: jnp.dtype, kept: Arrays, grad_result: jax.Array
) -> tuple[jax.Array, jax.Array, None]:
    """The gradients of x, in its dtype, and of the exact weight, never rounded below float32.

    The gradient of a float32 result, such as logits, is rounded to x's dtype first: accelerators multiply float32
    several times as long, and no sum of these products is rounded.
    """
    x, weight = kept
    grad_result = grad_result.astype(x.dtype)
    rows = tuple(range(x.ndim - 1))
    features = tuple(range(x.ndim - 1, grad_result.ndim))
    inputs = axes.partition(',')[2].index('D')  # the weight's axis that x is multiplied along
    outputs = tuple(axis for axis in range(weight.ndim) if axis != inputs)
    grad_x = jax.lax.dot_general(grad_result, weight, ((features, outputs), ((), ())), preferred_element_type=dtype)
    grad_weight = jax.lax.dot_general(grad_result, x, ((rows, rows), ((), ())), preferred_element_type=jnp.float32)
    return grad_x.astype(x.dtype), jnp.moveaxis(grad_weight, -1, inputs), None


_mixed_product.defvjp(_mixed_forward, _mixed_backward)


# Products of activations, in attention.


def mixed_einsum(axes: str, left: jax.Array, right: jax.Array, dtype: jnp.dtype | None = None) -> jax.Array:
    """Sums of products in the dtype of `right`, to which `left` is rounded, in `dtype` or that of `right`.

    Gradients, too, are products of arrays in the dtype of `right`.
    """
    dtype = jnp.dtype(dtype or right.dtype)
    if left.dtype == right.dtype == dtype == jnp.float32:
        return jnp.einsum(axes, left, right)
    return _mixed_einsum(axes, dtype, left.dtype, left, right)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _mixed_einsum(axes: str, dtype: jnp.dtype, left_dtype: jnp.dtype, left: jax.Array, right: jax.Array) -> jax.Array:
    return _mixed_einsum_forward(axes, dtype, left_dtype, left, right)[0]


def _mixed_einsum_forward(
    axes: str, dtype: jnp.dtype, _: jnp.dtype, left: jax.Array, right: jax.Array
) -> tuple[jax.Array, Arrays]:
    left = left.astype(right.dtype)
    return jnp.einsum(axes, left, right, preferred_element_type=jnp.float32).astype(dtype), (left, right)


def _mixed_einsum_backward(
    axes: str, _: jnp.dtype, left_dtype: jnp.dtype, kept: Arrays, grad_sums: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The gradients of both arrays, in their dtypes: products of rounded arrays, summed in float32."""
    left, right = kept
    grad_sums = grad_sums.astype(right.dtype)
    operands, sums = axes.split('->')
    left_axes, right_axes = operands.split(',')
    einsum = partial(jnp.einsum, preferred_element_type=jnp.float32)

    grad_left = einsum(f'{sums},{right_axes}->{left_axes}', grad_sums, right)
    # XLA for CPUs lacks this product of bfloat16 unless the axes that all arrays share lead in the first one.
    shared = {*left_axes} & {*right_axes} & {*sums}
    if shared == {*left_axes[: len(shared)]}:
        grad_right = einsum(f'{left_axes},{sums}->{right_axes}', left, grad_sums)
    else:
        grad_right = einsum(f'{sums},{left_axes}->{right_axes}', grad_sums, left)
    return grad_left.astype(left_dtype), grad_right.astype(right.dtype)


_mixed_einsum.defvjp(_mixed_einsum_forward, _mixed_einsum_backward)


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
