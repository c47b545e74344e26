"""Substitutes in equation 1: additive scores (an ablation), and the same attention computed by cuDNN.

Shapes are those of attention.py.
"""

from typing import Any

import jax
import jax.numpy as jnp


def additive(q: jax.Array, k: jax.Array, *, weight: jax.Array) -> jax.Array:
    """weight . tanh(q + k), float32 [B, H, T, S], of q [B, T, H, K], k [B, S, H, K] and weight [H, K].

    Bahdanau et al. 2015, section 3.1; their W_a and U_a are the projections of queries and keys. Queries are taken one
    at a time, in the backward pass too: [B, T, S, H, K] is never in memory, and CPUs need less than half the time.
    """
    k = jnp.moveaxis(k, 1, 3).astype(jnp.float32)
    weight = weight.astype(jnp.float32)[None, :, :, None]

    @jax.checkpoint
    def compare(q: jax.Array) -> jax.Array:
        return (weight * jnp.tanh(q.astype(jnp.float32)[..., None] + k)).sum(axis=2)

    return jnp.moveaxis(jax.lax.map(compare, jnp.swapaxes(q, 0, 1)), 0, 2)


def fused_attention(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array | None = None, **_: Any) -> jax.Array:
    """`attention` by cuDNN, on NVIDIA GPUs and in bfloat16; the weights are never all in memory.

    Other scores and dropout are refused by `TransformerConfig`. JAX's rule for the gradient takes even lengths only:
    odd ones get one more position, which nothing sees. cuDNN's gradient of a query that may attend to nothing is NaN:
    it gets equal weights, as in `attention`, by being zero and seeing all keys.
    """
    length, keys = q.shape[1], k.shape[1]
    if mask is None:
        if length % 2 == keys % 2 == 0:
            return jax.nn.dot_product_attention(q, k, v, implementation='cudnn')
        mask = jnp.ones((1, 1, 1, 1), bool)

    mask = jnp.broadcast_to(mask, (mask.shape[0], 1, length, keys))
    sees = mask.any(axis=-1, keepdims=True)
    q = jnp.where(sees[:, 0, :, :, None], q, 0)

    mask = jnp.pad(mask | ~sees, ((0, 0), (0, 0), (0, 0), (0, keys % 2)))
    mask = jnp.pad(mask, ((0, 0), (0, 0), (0, length % 2), (0, 0)), constant_values=True)
    q, k, v = (jnp.pad(x, ((0, 0), (0, x.shape[1] % 2), (0, 0), (0, 0))) for x in (q, k, v))
    return jax.nn.dot_product_attention(q, k, v, mask=mask, implementation='cudnn')[:, :length]
