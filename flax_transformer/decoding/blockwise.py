"""The largest of many numbers, by blocks: sorting the vocabulary for each token would cost more than the model."""

import jax
import jax.numpy as jnp

BLOCK = 64  # numbers, compared by their maximum first


def blockwise_top_k(x: jax.Array, k: int) -> tuple[jax.Array, jax.Array]:
    """The k largest of each row of x [N, V] and their indices, both [N, k]; ties go to the lower index, as in
    `jax.lax.top_k`.

    The k blocks with the largest maxima hold them all: any number in another block comes after k others.
    """
    if x.shape[1] <= (2 * k - 1) * BLOCK:
        return jax.lax.top_k(x, k)
    blocks, maxima = _blocks(x)
    chosen = jnp.sort(jax.lax.top_k(maxima, k)[1], axis=1)  # in order, for the ties
    candidates = jnp.take_along_axis(blocks, chosen[:, :, None], axis=1).reshape(-1, k * BLOCK)
    values, index = jax.lax.top_k(candidates, k)
    return values, jnp.take_along_axis(chosen, index // BLOCK, axis=1) * BLOCK + index % BLOCK


def blockwise_argmax(x: jax.Array) -> jax.Array:
    """The index [N] of the largest of each row of x [N, V]; ties go to the lower index."""
    blocks, maxima = _blocks(x)
    block = jnp.argmax(maxima, axis=1)
    candidates = jnp.take_along_axis(blocks, block[:, None, None], axis=1)[:, 0]
    return block * BLOCK + jnp.argmax(candidates, axis=1)


def _blocks(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Rows [N, V] in blocks [N, ceil(V / BLOCK), BLOCK], padded with -inf, and each block's maximum."""
    rows, size = x.shape
    count = -(-size // BLOCK)
    padded = jnp.pad(x, ((0, 0), (0, count * BLOCK - size)), constant_values=-jnp.inf)
    # Two reductions: the first, over an inner axis, is vectorized.
    maxima = padded.reshape(rows, count, 4, BLOCK // 4).max(axis=2).max(axis=2)
    return padded.reshape(rows, count, BLOCK), maxima
