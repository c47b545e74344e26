"""R-Drop (Liang et al. 2021): two passes, and how far apart they are."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from drawn_params import drawn
from tiny_translation import MODEL, uneven_batch

from flax_transformer.config import ParallelConfig
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.step import gradients
from flax_transformer.engine.task import TrainState
from flax_transformer.ops.dropout import drawn_once
from flax_transformer.tasks.translation.task import loss_sums, per_token
from flax_transformer.transformer.model import Transformer, parameter_shapes, shift_right

DROPPING = Transformer(replace(MODEL, dropout_rate=0.3))
ALPHA = 5.0
LOSS = partial(loss_sums, model=DROPPING, label_smoothing=0.1)
APPLY = jax.jit(partial(DROPPING.apply, deterministic=False))


@pytest.fixture(scope='module')
def params() -> Any:
    return drawn(parameter_shapes(MODEL))


def logits_of(params: Any, batch: Any, key: jax.Array) -> np.ndarray:
    inputs = shift_right(batch.target, 0, batch.target_positions)
    rest = {name: getattr(batch, name) for name in batch._fields[2:6]}
    rngs = {'dropout': drawn_once(key)}
    return np.asarray(APPLY({'params': params}, batch.source, inputs, **rest, rngs=rngs), np.float64)


@pytest.mark.parametrize(
    'loss_chunk', [pytest.param(0, marks=pytest.mark.slow), 8 * 5]
)  # at once; and 5 of 12 positions, halved for two passes
def test_the_loss_is_that_of_the_paper_halved(params: Any, loss_chunk: int) -> None:
    """Eq. 4 in plain NumPy, token by token, with the same two dropout masks."""
    batch, key = uneven_batch(), jax.random.key(7)
    loss, sums = jax.jit(partial(LOSS, r_drop_alpha=ALPHA, loss_chunk=loss_chunk))(params, batch, key)
    one, other = (logits_of(params, batch, each) for each in jax.random.split(key))
    assert np.abs(one - other).max() > 0.1
    total = nll = kl = 0.0
    size = one.shape[-1]
    for row, slot in zip(*np.nonzero(batch.target_segments), strict=True):
        log_p, log_q = (z[row, slot] - np.log(np.exp(z[row, slot]).sum()) for z in (one, other))
        wanted = np.full(size, 0.1 / (size - 1))
        wanted[batch.target[row, slot]] = 0.9
        both_ways = np.exp(log_p) @ (log_p - log_q) + np.exp(log_q) @ (log_q - log_p)
        total += 0.5 * (-(wanted @ log_p) - (wanted @ log_q) + ALPHA * 0.5 * both_ways)
        nll += 0.5 * -(log_p + log_q)[batch.target[row, slot]]
        kl += 0.5 * both_ways
    np.testing.assert_allclose([loss, sums['nll'], sums['kl']], [total, nll, kl], rtol=1e-5)
    assert per_token(jax.device_get(sums | {'loss': loss}))['kl'] == pytest.approx(kl / 43, rel=1e-5)


@pytest.mark.slow
def test_without_alpha_or_without_dropout_there_is_one_pass(params: Any) -> None:
    """The very program of the ordinary loss."""
    program = lambda key, **alpha: str(jax.make_jaxpr(partial(LOSS, **alpha))(params, uneven_batch(), key))
    key = jax.random.key(7)
    assert program(key, r_drop_alpha=0.0) == program(key)
    assert program(None, r_drop_alpha=ALPHA) == program(None)
    assert len(program(key, r_drop_alpha=ALPHA)) > 1.5 * len(program(key))


@pytest.mark.slow
def test_gradients_flow_through_both_passes(params: Any) -> None:
    """In chunks; against a difference along the gradient."""
    devices = Devices(ParallelConfig('mesh', 1))
    loss_fn = partial(LOSS, r_drop_alpha=ALPHA, loss_chunk=8 * 5)
    state = devices.put(TrainState(jnp.int32(0), params, (), None), devices.replicated)
    compiled = devices.compile(partial(gradients, loss=loss_fn, weight='target_tokens'))
    slopes, sums = jax.device_get(compiled(state, devices.split(uneven_batch()), jax.random.key(7)))
    key = jax.random.fold_in(jax.random.key(7), 0)
    value = jax.jit(lambda params: LOSS(params, uneven_batch(), key, r_drop_alpha=ALPHA)[0])
    norm = float(optax.tree.norm(slopes))
    step = 1e-2 / norm
    ahead, behind = (value(jax.tree.map(lambda x, g, s=s: x + s * g, params, slopes)) for s in (step, -step))
    measured = (ahead - behind) / (2 * step) / sums['target_tokens']
    assert measured == pytest.approx(norm**2, rel=0.02)
