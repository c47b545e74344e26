"""Arrays in chunks of equal size."""

import jax
import jax.numpy as jnp


def cut(x: jax.Array, count: int) -> jax.Array:
    """[A, B, ...] as [count, A, ceil(B / count), ...], padded with zeros.

    >>> cut(jnp.array([[1, 2, 3], [4, 5, 6]]), 2).tolist()
    [[[1, 2], [4, 5]], [[3, 0], [6, 0]]]
    """
    width = -(-x.shape[1] // count)
    padded = jnp.pad(x, [(0, 0), (0, count * width - x.shape[1]), *[(0, 0)] * (x.ndim - 2)])
    return jnp.moveaxis(padded.reshape(x.shape[0], count, width, *x.shape[2:]), 1, 0)
