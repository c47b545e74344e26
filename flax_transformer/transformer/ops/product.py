"""What layers do with a weight, a float array or `Quantized`: multiply by it and look up its rows."""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from flax_transformer.transformer.ops.int8 import Quantized, int8_product

Weight = jax.Array | Quantized


def product(x: jax.Array, weight: Weight, *, axis: int = 0, dtype: jnp.dtype | None = None) -> jax.Array:
    """x W, [..., F], of x [..., D] and a weight [D, F], or [F, D] with axis 1, that of D.

    The result has the dtype of x, or `dtype`: logits are float32 even where x is bfloat16.
    """
    result = dtype or x.dtype
    if isinstance(weight, Quantized):
        return int8_product(x, weight, axis).astype(result)
    weight = weight.astype(x.dtype)
    if axis == 1:
        return _against_rows(x, weight, result)
    if dtype is None and _num_rows(x) == 1 and (blocks := math.gcd(len(weight), 4)) > 1:
        # A single row, as in greedy decoding: XLA for CPUs is up to 1.8 times as fast where it can add up blocks.
        parts = weight.reshape(blocks, -1, weight.shape[1])
        sums = jnp.einsum('BD,BDF->BF', x.reshape(blocks, -1), parts, preferred_element_type=jnp.float32)
        return sums.sum(axis=0, keepdims=True).astype(result)
    return jnp.einsum('...D,DF->...F', x, weight, preferred_element_type=result)


def products(rows: jax.Array, weights: Sequence[Weight]) -> list[jax.Array]:
    """[N, F] for each weight [D, F] of rows [N, D], in one product where they are floats.

    It pays off for many rows: the weights are stacked at each call.
    """
    if any(isinstance(weight, Quantized) for weight in weights):
        return [product(rows, weight) for weight in weights]
    # On an axis of their own, not concatenated: features that are sharded over devices stay where they are.
    stacked = jnp.stack(weights, axis=1).astype(rows.dtype)
    together = jnp.einsum('ND,DMF->NMF', rows, stacked)
    return [together[:, number] for number in range(len(weights))]


def look_up(table: Weight, ids: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """Rows [..., D] of a table [V, D], for ids [...]."""
    if isinstance(table, Quantized):
        return (table.values[ids] * table.scale[ids][..., None]).astype(dtype)
    return table.astype(dtype)[ids]


def _against_rows(x: jax.Array, table: jax.Array, dtype: jnp.dtype) -> jax.Array:
    size, width = table.shape
    blocks = math.gcd(size, 8)
    if 1 < _num_rows(x) <= 64 and blocks > 1:
        # Few rows, as in decoding: XLA for CPUs is up to 1.6 times as fast with the table in blocks.
        parts = table.reshape(blocks, size // blocks, width)
        logits = jnp.einsum('ND,BVD->BNV', x, parts, preferred_element_type=dtype)
        return logits.swapaxes(0, 1).reshape(x.shape[0], size)
    return jnp.einsum('...D,VD->...V', x, table, preferred_element_type=dtype)


def _num_rows(x: jax.Array) -> int:
    """N of x [N, D]; 0 where x has more axes, or N is symbolic, as in an export."""
    return x.shape[0] if x.ndim == 2 and isinstance(x.shape[0], int) else 0
