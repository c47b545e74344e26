"""What layers do with a weight: multiply by it, look up its rows, add it to rows.

Parameters are float32 and are cast to the dtype of computation here. A weight comes in three forms:

- a float array. In float32, on CPUs, a product is an einsum, in blocks where there are few rows (XLA is faster so);
- a float array under bfloat16 (GPUs, TPUs): products round it, but its gradient, a sum over all tokens of a batch,
  stays in float32, as eight bits would lose most of a long sum. JAX's own gradient would have the dtype of x, so
  `_mixed_product` defines one; `Rounded` holds both forms, for a loop that would round at each turn;
- `Quantized`, eight bits, for decoding (int8.py).

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
    """A float32 weight and what products in bfloat16 read, so that a loop need not round it."""

    exact: jax.Array  # first, as in `Quantized`; gets the gradient
    rounded: jax.Array


Weight = jax.Array | Quantized | Rounded


def round_once(params: Any, dtype: jnp.dtype) -> Any:
    """The tree with each matrix as a `Rounded`, unless the dtype is float32; for `product` alone."""
    if jnp.finfo(dtype).bits == 32:
        return params
    rounded = lambda x: Rounded(x, jax.lax.stop_gradient(x).astype(dtype)) if x.ndim > 1 else x
    return jax.tree.map(rounded, params)


def resolve_dtype(config: Any, platform: str | None = None) -> Any:
    """Returns a model's config with a concrete dtype: 'auto' is float32 on CPUs (by default JAX's), else bfloat16."""
    if config.dtype != 'auto':
        return config
    return replace(config, dtype='float32' if (platform or jax.default_backend()) == 'cpu' else 'bfloat16')


def product(x: jax.Array, weight: Weight, *, axis: int = 0, dtype: jnp.dtype | None = None) -> jax.Array:
    """x W, [..., F], of x [..., D] and a weight [D, F], or [F, D] with axis 1, that of D.

    The result has the dtype of x, or `dtype`: logits are float32 even where x is bfloat16.
    """
    result = dtype or x.dtype
    if isinstance(weight, Quantized):
        return int8_product(x, weight, axis).astype(result)
    if isinstance(weight, Rounded):
        return _mixed_product('...D,VD->...V' if axis == 1 else '...D,DF->...F', result, x, *weight)
    if axis == 1:
        return _against_rows(x, weight, result)
    if dtype is None and _num_rows(x) == 1 and (blocks := math.gcd(len(weight), 4)) > 1:
        # A single row, as in greedy decoding: XLA for CPUs is up to 1.8 times as fast where it can add up blocks.
        parts = weight.astype(x.dtype).reshape(blocks, -1, weight.shape[1])
        sums = jnp.einsum('BD,BDF->BF', x.reshape(blocks, -1), parts, preferred_element_type=jnp.float32)
        return sums.sum(axis=0, keepdims=True).astype(result)
    return _product('...D,DF->...F', x, weight, result)


def products(rows: jax.Array, weights: Sequence[Weight]) -> list[jax.Array]:
    """Returns [N, F] for each weight [D, F], in one product of floats: they are stacked, which pays for many rows."""
    if any(isinstance(weight, Quantized) for weight in weights):
        return [product(rows, weight) for weight in weights]
    # Stacked on an axis of their own, not concatenated: features that are sharded over devices stay where they are.
    together = _product('ND,DMF->NMF', rows, jnp.stack(weights, axis=1), rows.dtype)
    return [together[:, number] for number in range(len(weights))]


def look_up(table: Weight, ids: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """Rows [..., D] of a table [V, D], for ids [...]."""
    if isinstance(table, Quantized):
        return (table.values[ids] * table.scale[ids][..., None]).astype(dtype)
    return _whole_rows(table)[ids].astype(dtype)  # cast last, so that the gradient adds up float32


def _whole_rows(table: jax.Array) -> jax.Array:
    """The table [V, D] with no row split over the devices of a mesh with these axes; elsewhere the table as it is.

    A look-up in split rows would have vectors split along D over `fsdp`, over which the batch is split too: XLA would
    gather the vectors of the whole batch on every device, and say so ("involuntary full rematerialization").
    """
    if 'fsdp' not in jax.sharding.get_abstract_mesh().auto_axes:
        return table
    return jax.lax.with_sharding_constraint(table, P(P.UNCONSTRAINED, None))


def add_to_rows(x: jax.Array, vector: jax.Array) -> jax.Array:
    """x [..., D] plus a vector that broadcasts to its shape, in the dtype of x."""
    return x + jnp.broadcast_to(vector, x.shape).astype(x.dtype)  # cast last, as above


def _against_rows(x: jax.Array, table: jax.Array, dtype: jnp.dtype) -> jax.Array:
    size, width = table.shape
    blocks = math.gcd(size, 8)
    if 1 < _num_rows(x) <= 64 and blocks > 1:
        # Few rows, as in decoding: XLA for CPUs is up to 1.6 times as fast with the table in blocks.
        parts = table.astype(x.dtype).reshape(blocks, size // blocks, width)
        logits = jnp.einsum('ND,BVD->BNV', x, parts, preferred_element_type=dtype)
        return logits.swapaxes(0, 1).reshape(x.shape[0], size)
    return _product('...D,VD->...V', x, table, dtype)


def _product(axes: str, x: jax.Array, weight: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """x [..., D] times a weight, by `axes` as in einsum, in the dtype of x; the result has `dtype`."""
    if weight.dtype == jnp.float32 and jnp.finfo(x.dtype).bits < 32:
        return _mixed_product(axes, dtype, x, *round_once(weight, x.dtype))
    return jnp.einsum(axes, x, weight.astype(x.dtype), preferred_element_type=dtype)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _mixed_product(axes: str, dtype: jnp.dtype, x: jax.Array, exact: jax.Array, rounded: jax.Array) -> jax.Array:
    """As `_product`, with a gradient of its own; so `jax.jvp` works in float32 only."""
    return _mixed_forward(axes, dtype, x, exact, rounded)[0]


def _mixed_forward(
    axes: str, dtype: jnp.dtype, x: jax.Array, _: jax.Array, rounded: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return jnp.einsum(axes, x, rounded, preferred_element_type=dtype), (x, rounded)


def _mixed_backward(
    axes: str, dtype: jnp.dtype, kept: tuple[jax.Array, jax.Array], grad_result: jax.Array
) -> tuple[jax.Array, jax.Array, None]:
    """The gradients of x, in its dtype, and of the exact weight, never rounded below float32.

    The gradient of a float32 result, such as logits, is rounded to x's dtype first: products of float32 take
    accelerators several times as long, and no sum of these products is rounded.
    """
    x, weight = kept
    grad_result = grad_result.astype(x.dtype)
    rows, features = tuple(range(x.ndim - 1)), tuple(range(x.ndim - 1, grad_result.ndim))
    inputs = axes.partition(',')[2].index('D')  # the weight's axis that x is multiplied along
    outputs = tuple(axis for axis in range(weight.ndim) if axis != inputs)
    grad_x = jax.lax.dot_general(grad_result, weight, ((features, outputs), ((), ())), preferred_element_type=dtype)
    grad_weight = jax.lax.dot_general(grad_result, x, ((rows, rows), ((), ())), preferred_element_type=jnp.float32)
    return grad_x.astype(x.dtype), jnp.moveaxis(grad_weight, -1, inputs), None


_mixed_product.defvjp(_mixed_forward, _mixed_backward)


def _num_rows(x: jax.Array) -> int:
    """N of x [N, D]; 0 where x has more axes, or N is symbolic, as in an export."""
    return x.shape[0] if x.ndim == 2 and isinstance(x.shape[0], int) else 0


def mixed_einsum(axes: str, left: jax.Array, right: jax.Array, dtype: jnp.dtype | None = None) -> jax.Array:
    """Returns sums of products in the dtype of `right`, to which `left` is rounded, in `dtype` or that of `right`.

    `axes` as in einsum. Gradients, too, are products of arrays in the dtype of `right`.
    """
    dtype = jnp.dtype(dtype or right.dtype)
    if left.dtype == right.dtype == dtype == jnp.float32:
        return jnp.einsum(axes, left, right)
    return _mixed_einsum(axes, dtype, left, right)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _mixed_einsum(axes: str, dtype: jnp.dtype, left: jax.Array, right: jax.Array) -> jax.Array:
    return _mixed_einsum_forward(axes, dtype, left, right)[0]


def _mixed_einsum_forward(
    axes: str, dtype: jnp.dtype, left: jax.Array, right: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array, jax.Array]]:
    """The sums in `dtype`; what their gradients read; and nothing, in the dtype of `left`."""
    rounded, nothing = left.astype(right.dtype), jnp.zeros((), left.dtype)
    return jnp.einsum(axes, rounded, right, preferred_element_type=jnp.float32).astype(dtype), (rounded, right, nothing)


def _mixed_einsum_backward(
    axes: str, _: jnp.dtype, kept: tuple[jax.Array, jax.Array, jax.Array], grad_sums: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The gradients of both arrays, in their dtypes: products of rounded arrays, summed in float32."""
    left, right, nothing = kept
    left_axes, (right_axes, sums) = axes.split(',')[0], axes.split(',')[1].split('->')
    einsum, grad_sums = partial(jnp.einsum, preferred_element_type=jnp.float32), grad_sums.astype(right.dtype)
    grad_left = einsum(f'{sums},{right_axes}->{left_axes}', grad_sums, right)
    # XLA for CPUs lacks this product of bfloat16 unless the axes that all arrays share lead in the first one.
    shared = {*left_axes} & {*right_axes} & {*sums}
    if shared == {*left_axes[: len(shared)]}:
        grad_right = einsum(f'{left_axes},{sums}->{right_axes}', left, grad_sums)
    else:
        grad_right = einsum(f'{sums},{left_axes}->{right_axes}', grad_sums, left)
    return grad_left.astype(nothing.dtype), grad_right.astype(right.dtype)


_mixed_einsum.defvjp(_mixed_einsum_forward, _mixed_einsum_backward)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def rounded_softmax(scores: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """The softmax of float32 scores over their last axis, in `dtype`; its gradient keeps no other weights."""
    return jax.nn.softmax(scores, axis=-1).astype(dtype)


def _softmax_forward(scores: jax.Array, dtype: jnp.dtype) -> tuple[jax.Array, jax.Array]:
    weights = rounded_softmax(scores, dtype)
    return weights, weights


def _softmax_backward(_: jnp.dtype, weights: jax.Array, grad: jax.Array) -> tuple[jax.Array]:
    weights, grad = weights.astype(jnp.float32), grad.astype(jnp.float32)
    return ((grad - (grad * weights).sum(axis=-1, keepdims=True)) * weights,)


rounded_softmax.defvjp(_softmax_forward, _softmax_backward)
