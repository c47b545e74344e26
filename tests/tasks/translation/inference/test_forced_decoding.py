"""Log-probabilities of given targets against the softmax of all logits at once."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from drawn_params import drawn
from tiny_translation import MODEL

from flax_transformer.config import DecodingConfig
from flax_transformer.tasks.translation.inference import ids
from flax_transformer.tasks.translation.inference.ids import SpecialIds, score_ids
from flax_transformer.transformer.model import Transformer, parameter_shapes, shift_right

ROWS, SLOTS = 3, 11


@pytest.fixture(scope='module')
def pairs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    source, target = (rng.integers(2, MODEL.vocab_size, (ROWS, SLOTS), np.int32) for _ in range(2))
    target[1, 5:] = MODEL.pad_id
    return source, target


@pytest.fixture(scope='module')
def members(pairs: tuple[np.ndarray, np.ndarray]) -> list[tuple[Any, np.ndarray]]:
    """Two models' parameters, each with its probabilities [B, T, V]."""
    source, target = pairs
    apply = jax.jit(Transformer(MODEL).apply)
    params = [drawn(parameter_shapes(MODEL), seed=i) for i in range(2)]
    logits = [apply({'params': one}, source, shift_right(jnp.asarray(target), 0)) for one in params]
    return [(one, np.asarray(jax.nn.softmax(x), np.float64)) for one, x in zip(params, logits, strict=True)]


@pytest.mark.parametrize('mean', ['log_probability', 'probability'])
@pytest.mark.slow_cases('log_probability')
def test_log_probs_in_chunks_are_those_of_all_logits(mean, pairs, members, monkeypatch) -> None:
    monkeypatch.setattr(ids, 'CHUNK', 2 * ROWS)  # 2 slots at once, the last chunk half empty
    source, target = pairs
    params, probabilities = zip(*members, strict=True)
    models = (Transformer(MODEL),) * len(members)
    settings = dict(models=models, special_ids=SpecialIds(0, 1), decoding=DecodingConfig(ensemble=mean))
    program = jax.jit(partial(score_ids, **settings)).lower(params, source, target)
    assert f'x{SLOTS}x{MODEL.vocab_size}xf32' not in program.as_text(), 'all logits are in memory at once'
    _, found = program.compile()(params, source, target)

    if mean == 'probability':
        expected = np.log(np.mean(probabilities, axis=0))
    else:
        expected = np.log(probabilities).mean(axis=0)
        expected -= np.log(np.exp(expected).sum(axis=-1, keepdims=True))
    expected = np.take_along_axis(expected, target[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(found, np.where(target == 0, 0, expected), atol=1e-5)  # float32
