"""Several models as one step: the mean of their distributions, computed here by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flax_transformer.common.decode_state import DecodeState
from flax_transformer.decoding.search import ensemble, ensemble_state

LOGITS = [jnp.array([[0.5, -1.0, 2.0], [0.0, 0.0, 0.0]]), jnp.array([[1.5, 1.0, -2.0], [3.0, 0.0, 1.0]])]


def test_probabilities_are_averaged() -> None:
    steps = [lambda tokens, state, logits=logits: (logits, state) for logits in LOGITS]
    state = ensemble_state([DecodeState(cache, (), jnp.int32(0)) for cache in (jnp.zeros(2), jnp.ones(2))])
    probabilities = np.mean([jax.nn.softmax(logits) for logits in LOGITS], axis=0)
    found, after = ensemble(steps, mean='probability')(jnp.zeros(2, int), state)
    np.testing.assert_allclose(np.exp(found), probabilities, rtol=1e-6)
    assert int(after.position) == 1
    logs = np.mean([jax.nn.log_softmax(logits) for logits in LOGITS], axis=0)
    np.testing.assert_allclose(ensemble(steps)(jnp.zeros(2, int), state)[0], logs, rtol=1e-6)
    with pytest.raises(ValueError, match='expected log_probability or probability'):
        ensemble(steps, mean='median')
