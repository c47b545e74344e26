"""How a decoder's state is compared with each position of the source.

Shapes: B rows, Q states of each, S source positions, A attention size, C values.
"""

import jax
import jax.numpy as jnp

from flax_transformer.ops.product import product


@jax.checkpoint  # tanh is recomputed in the backward pass: [B, Q, S, A] is much more than all else
def additive_energies(q: jax.Array, k: jax.Array, vector: jax.Array) -> jax.Array:
    """vector . tanh(q + k), float32 [B, Q, S], of queries [B, Q, A] and keys [B, S, A] (Bahdanau et al. 2015, A.1)."""
    # Added up in float32, as the gradients are, over the keys of a query and the queries of a key.
    hidden = (q.astype(jnp.float32)[:, :, None] + k.astype(jnp.float32)[:, None]).astype(q.dtype)
    return product(jnp.tanh(hidden), vector[:, None], dtype=jnp.float32)[..., 0]


def additive_energies_by_query(q: jax.Array, k: jax.Array, vector: jax.Array) -> jax.Array:
    """`additive_energies`, with one query of each row in memory at once."""
    k = k.astype(jnp.float32)  # so its gradients are summed in float32 over the queries
    energies_of = lambda q: additive_energies(q[:, None], k, vector)[:, 0]
    return jnp.swapaxes(jax.lax.map(energies_of, jnp.swapaxes(q, 0, 1)), 0, 1)


def multiplicative_energies(q: jax.Array, k: jax.Array) -> jax.Array:
    """q . k, float32 [B, Q, S], of queries [B, Q, A] and keys [B, S, A] (Luong et al. 2015, eq. 8)."""
    return jnp.einsum('BQA,BSA->BQS', q, k, preferred_element_type=jnp.float32)


def attention_weights(energies: jax.Array, mask: jax.Array) -> jax.Array:
    """softmax [B, Q, S] over the positions that the mask shows; equal weights where it shows none, never NaN."""
    return jax.nn.softmax(jnp.where(mask, energies, jnp.finfo(jnp.float32).min), axis=-1)


def context_of(weights: jax.Array, values: jax.Array) -> jax.Array:
    """The means [B, Q, C] of values [B, S, C] under weights [B, Q, S], in the dtype of the values."""
    sums = jnp.einsum('BQS,BSC->BQC', weights.astype(values.dtype), values, preferred_element_type=jnp.float32)
    return sums.astype(values.dtype)
