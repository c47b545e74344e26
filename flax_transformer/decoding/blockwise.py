"""The largest of many numbers, in stages: to sort a vocabulary for each token would cost more than the model."""

import jax
import jax.numpy as jnp

BLOCK = 64  # numbers that are first looked at as one


def blockwise_top_k(x: jax.Array, k: int) -> tuple[jax.Array, jax.Array]:
    """The k largest of each row of x [N, V], and their places, both [N, k]; among equals the lower place, as in
    `jax.lax.top_k`.

    The k blocks with the largest maxima hold them all: whatever lies in another block has k numbers before it.
    """
    if x.shape[1] <= (2 * k - 1) * BLOCK:
        return jax.lax.top_k(x, k)
    blocks, maxima = _blocks(x)
    chosen = jnp.sort(jax.lax.top_k(maxima, k)[1], axis=1)  # in their order, for the ties
    candidates = jnp.take_along_axis(blocks, chosen[:, :, None], axis=1).reshape(-1, k * BLOCK)
    values, place = jax.lax.top_k(candidates, k)
    return values, jnp.take_along_axis(chosen, place // BLOCK, axis=1) * BLOCK + place % BLOCK


def blockwise_argmax(x: jax.Array) -> jax.Array:
    """The place [N] of the largest of each row of x [N, V], among equals the lowest."""
    blocks, maxima = _blocks(x)
    block = jnp.argmax(maxima, axis=1)
    candidates = jnp.take_along_axis(blocks, block[:, None, None], axis=1)[:, 0]
    return block * BLOCK + jnp.argmax(candidates, axis=1)


def _blocks(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Rows [N, V] in blocks, [N, ceil(V / BLOCK), BLOCK], -inf behind the last; and the largest of each block."""
    rows, size = x.shape
    count = -(-size // BLOCK)
    padded = jnp.pad(x, ((0, 0), (0, count * BLOCK - size)), constant_values=-jnp.inf)
    # Two reductions: the first is over an inner axis, which runs in vectors.
    maxima = padded.reshape(rows, count, 4, BLOCK // 4).max(axis=2).max(axis=2)
    return padded.reshape(rows, count, BLOCK), maxima
