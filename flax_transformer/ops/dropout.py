"""Dropout (Srivastava et al. 2014) with cheap random bits: a hash of each element's index."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.extend.random import define_prng_impl


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

    XLA fuses a hash of the element's index into the loop that uses it; jax.random's generator passes over memory
    several times on CPUs. Good enough for dropout, not for more.
    """
    return jax.random.bits(drawn_once(key), shape, jnp.uint32) >= jnp.uint32(round(rate * 2**32))


def drawn_once(key: jax.Array) -> jax.Array:
    """A key for all dropouts of a pass: folding a path's hash into its two random words costs little."""
    if jax.random.key_impl(key) == _HASHED:
        return key
    return jax.random.wrap_key_data(jax.random.bits(key, (2,), jnp.uint32), impl=_HASHED)


def _mixed(x: jax.Array) -> jax.Array:
    """uint32, mixed by the finalizer `lowbias32` of C. Wellons (hash-prospector)."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)


def _fold_in(words: jax.Array, number: jax.Array) -> jax.Array:
    return _mixed(words ^ number)


def _bits(words: jax.Array, _: int, shape: tuple[int, ...]) -> jax.Array:
    """The mixed index of each element, after an affine step with two random words."""
    size = 1
    number = jnp.zeros(shape, jnp.uint32)
    for axis in reversed(range(len(shape))):
        number = number + jax.lax.broadcasted_iota(jnp.uint32, shape, axis) * jnp.uint32(size % 2**32)
        size *= shape[axis]
    return _mixed(number * (words[0] | 1) + words[1])


_HASHED = define_prng_impl(
    key_shape=(2,),
    seed=None,  # keys are made by `drawn_once` alone, and folded in, never split
    split=None,
    random_bits=_bits,
    fold_in=_fold_in,
    name='lowbias32',
    tag='lowbias32',
)
