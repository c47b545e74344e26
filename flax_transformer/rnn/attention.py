"""How a decoder's state is compared with each position of the source.

Shapes: B rows, Q states of each, S source positions, A attention size, C values.
"""

import jax
import jax.numpy as jnp


def additive_energies(q: jax.Array, k: jax.Array, vector: jax.Array) -> jax.Array:
    """vector . tanh(q + k), float32 [B, Q, S], of queries [B, Q, A] and keys [B, S, A] (Bahdanau et al. 2015, A.1)."""
    hidden = jnp.tanh(q[:, :, None] + k[:, None])
    return jnp.einsum('BQSA,A->BQS', hidden, vector.astype(hidden.dtype), preferred_element_type=jnp.float32)


def multiplicative_energies(q: jax.Array, k: jax.Array) -> jax.Array:
    """q . k, float32 [B, Q, S], of queries [B, Q, A] and keys [B, S, A] (Luong et al. 2015, eq. 8)."""
    return jnp.einsum('BQA,BSA->BQS', q, k, preferred_element_type=jnp.float32)


def weights_of(energies: jax.Array, mask: jax.Array) -> jax.Array:
    """softmax [B, Q, S] over the positions that the mask shows; equal weights where it shows none, never NaN."""
    return jax.nn.softmax(jnp.where(mask, energies, jnp.finfo(jnp.float32).min), axis=-1)
