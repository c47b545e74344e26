"""Keys and values of what has been decoded so far, and which of them a hypothesis sees.

Shapes: B batch, H heads, K head width, S keys, W hypotheses of a sentence, L positions that there is room for.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from flax_transformer.ops.batch_invariance import columns_for, is_batch_invariant


class KVCache(NamedTuple):
    """Keys and values at the positions decoded so far, with those of W hypotheses next to each other.

    Arrays are stored as the products read them, so that nothing is copied: with keys laid out as values are, the
    products took five times as long on CPUs.
    """

    k: jax.Array  # [B * H, K, L * W], or more where decoding is batch invariant
    v: jax.Array  # [B * H, L * W, K]

    @classmethod
    def empty(cls, batch: int, slots: int, num_heads: int, head_dim: int, dtype: jnp.dtype) -> 'KVCache':
        heads = batch * num_heads
        return cls(jnp.zeros((heads, head_dim, slots), dtype), jnp.zeros((heads, slots, head_dim), dtype))

    @classmethod
    def packed(cls, k: jax.Array, v: jax.Array) -> 'KVCache':
        """A cache of k and v [B, S, H, K]."""
        return cls(_keys_first(k), heads_first(v))

    def keys(self, num_heads: int) -> jax.Array:
        """Keys [B, S, H, K]."""
        k = self.k[:, :, : self.num_slots]
        return jnp.moveaxis(k.reshape(-1, num_heads, *k.shape[1:]), 3, 1)

    @property
    def num_slots(self) -> int:
        return self.v.shape[1]

    def with_room(self, slots: int) -> 'KVCache':
        """The cache with `slots` slots; new ones are zero."""

        columns = columns_for(slots) if is_batch_invariant() else slots  # here once, not anew for each token

        def grown(x: jax.Array, axis: int, slots: int) -> jax.Array:
            new = jnp.zeros((*x.shape[:axis], slots, *x.shape[axis + 1 :]), x.dtype)
            return jax.lax.dynamic_update_slice(new, x, (0, 0, 0))

        return KVCache(grown(self.k, 2, columns), grown(self.v, 1, slots))

    def put(self, k: jax.Array, v: jax.Array, position: jax.Array) -> 'KVCache':
        """The cache with k, v [B, W, H, K] at `position`, below L (unchecked: it is traced)."""
        first = position * k.shape[1]
        k, v = _keys_first(k.astype(self.k.dtype)), heads_first(v.astype(self.v.dtype))
        update = jax.lax.dynamic_update_slice_in_dim
        return KVCache(update(self.k, k, first, axis=2), update(self.v, v, first, axis=1))


def visible_slots(length: int, position: jax.Array, ancestry: jax.Array | None, width: int) -> jax.Array:
    """A mask [B or 1, 1, W, L * W] of the slots of a `KVCache` that hypotheses see at `position`.

    `ancestry` [B, W, >= L] says whose slot a hypothesis reads at each earlier position, so that nothing is copied when
    beams are reordered.

    >>> visible_slots(3, 1, jnp.array([[[1, 9, 9], [0, 9, 9]]]), width=2)[0, 0].astype(int).tolist()
    [[0, 1, 1, 0, 0, 0], [1, 0, 0, 1, 0, 0]]
    """
    slots = jnp.arange(length)
    own = jnp.arange(width)
    is_written = slots <= position
    if width == 1:
        return is_written[None, None, None]

    whose = jnp.broadcast_to(own[None, :, None], (1, width, length))
    if ancestry is not None:
        whose = jnp.where((slots == position)[None, None], whose, ancestry[:, :, :length])
    seen = (whose[:, :, :, None] == own[None, None, None]) & is_written[None, None, :, None]
    return seen.reshape(whose.shape[0], 1, width, length * width)


def heads_first(x: jax.Array) -> jax.Array:
    """[B * H, S, K] from [B, S, H, K]: a batch of matrices."""
    return jnp.swapaxes(x, 1, 2).reshape(-1, x.shape[1], x.shape[3])


def _keys_first(x: jax.Array) -> jax.Array:
    """[B * H, K, S] from [B, S, H, K]."""
    return jnp.moveaxis(x, 1, 3).reshape(-1, x.shape[3], x.shape[1])
