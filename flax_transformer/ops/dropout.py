"""Dropout (Srivastava et al. 2014) with cheap random bits: a hash of each element's index."""

import flax.linen as nn
import jax
import jax.numpy as jnp


class Dropout(nn.Module):
    """Sets each element to 0 with probability `rate`, and divides the others by 1 - rate."""

    rate: float

    @nn.compact
    def __call__(self, x: jax.Array, *, deterministic: bool = True) -> jax.Array:
        if deterministic or not self.rate:
            return x
        return jnp.where(kept(self.make_rng('dropout'), x.shape, self.rate), x / (1.0 - self.rate), 0)


def kept(key: jax.Array, shape: tuple[int, ...], rate: float) -> jax.Array:
    """Which elements stay, boolean: each with probability 1 - rate, independent of the sharding.

    jax.random's generator passes over memory several times on CPUs. A hash of the element's index does not: XLA fuses
    it into the loop that uses it. Good enough for dropout, not for more: 32 bits, mixed by the finalizer `lowbias32` of
    C. Wellons (hash-prospector), after an affine step with two random words.
    """
    first, second = jax.random.bits(key, (2,), jnp.uint32)
    size = 1
    number = jnp.zeros(shape, jnp.uint32)
    for axis in reversed(range(len(shape))):
        number = number + jax.lax.broadcasted_iota(jnp.uint32, shape, axis) * jnp.uint32(size % 2**32)
        size *= shape[axis]
    x = number * (first | 1) + second
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    x = x ^ (x >> 16)
    return x >= jnp.uint32(round(rate * 2**32))
