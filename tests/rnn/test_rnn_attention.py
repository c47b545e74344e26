"""Energies, weights and contexts against NumPy."""

import jax.numpy as jnp
import numpy as np

from flax_transformer.rnn.decoder import (
    additive_energies,
    additive_energies_by_query,
    attention_weights,
    context_of,
    multiplicative_energies,
)

B, Q, S, A = 2, 3, 4, 5
DRAW = np.random.default_rng(0).normal
QUERIES, KEYS, VECTOR = (DRAW(size=size).astype(np.float32) for size in ((B, Q, A), (B, S, A), A))
CLOSE = {'rtol': 0, 'atol': 1e-5}


def test_energies_are_those_of_numpy() -> None:
    additive, product = np.zeros((2, B, Q, S))
    for b, q, s in np.ndindex(B, Q, S):
        additive[b, q, s] = VECTOR @ np.tanh(QUERIES[b, q] + KEYS[b, s])
        product[b, q, s] = QUERIES[b, q] @ KEYS[b, s]
    np.testing.assert_allclose(additive_energies(QUERIES, KEYS, VECTOR), additive, **CLOSE)
    np.testing.assert_allclose(additive_energies_by_query(QUERIES, KEYS, VECTOR), additive, **CLOSE)
    np.testing.assert_allclose(multiplicative_energies(QUERIES, KEYS), product, **CLOSE)


def test_weights_add_up_to_1_over_what_is_shown() -> None:
    energies = jnp.array([[[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]]])
    mask = jnp.array([[[True, True, False], [False, False, False]]])
    odds = np.e / (1 + np.e)
    np.testing.assert_allclose(attention_weights(energies, mask)[0, 0], [1 - odds, odds, 0], rtol=1e-6)
    np.testing.assert_allclose(attention_weights(energies, mask)[0, 1], [1 / 3] * 3, rtol=1e-6)  # nothing is shown


def test_a_context_is_a_mean_of_values() -> None:
    values = jnp.array([[[1.0, 0.0], [3.0, 8.0]]])
    np.testing.assert_allclose(context_of(jnp.array([[[0.25, 0.75]]]), values), [[[2.5, 6.0]]])
