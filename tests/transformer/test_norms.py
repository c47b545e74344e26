"""Norms over positions and over batches, their running statistics, and what training makes of these."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_translation import MODEL, drawn, uneven_batch

from flax_transformer.common.trees import named_leaves
from flax_transformer.engine.config import OptimizerConfig
from flax_transformer.engine.optimizer import make_optimizer
from flax_transformer.engine.step import train_step
from flax_transformer.engine.task import init_state
from flax_transformer.tasks.translation.task import loss_sums
from flax_transformer.transformer.encoder import Encoder
from flax_transformer.transformer.model import Transformer, parameter_shapes
from flax_transformer.transformer.norms import BatchSums, make_norm, with_running_statistics

B, S, D, EPSILON = 3, 6, 16, 0.01
SEGMENTS = np.array([[1, 1, 1, 2, 2, 0], [1, 2, 2, 2, 2, 2], [0, 0, 0, 0, 0, 0]])
IS_TOKEN = SEGMENTS > 0
PARAMS = {
    'scale': np.linspace(0.5, 2, D, dtype=np.float32),
    'bias': np.linspace(-1, 1, D, dtype=np.float32),
    'mean': np.linspace(3, 5, D, dtype=np.float32),
    'variance': np.linspace(1, 9, D, dtype=np.float32),
}
ADAMW = OptimizerConfig(name='adamw', schedule='constant', learning_rate=1e-2, warmup_steps=0, weight_decay=0.5)
FLOAT32 = {'rtol': 1e-4, 'atol': 1e-5}  # against float64, of some ten values around 4


def draw(seed=0):
    return (4 + np.random.default_rng(seed).normal(size=(B, S, D))).astype(np.float32)


def applied(kind, x, dtype=jnp.float32, params=PARAMS, **keywords):
    norm = make_norm(kind, EPSILON, dtype)
    params = {name: params[name] for name in ('scale', 'bias', *(('mean', 'variance') if kind == 'batch' else ()))}
    return jax.jit(partial(norm.apply, **keywords))({'params': params}, x, SEGMENTS)


def in_training(x, params=PARAMS):
    """x by batch norm, and the `BatchSums` that it sowed."""
    out, sown = applied('batch', x, params=params, deterministic=False, mutable=['statistics'])
    return out, sown['statistics']['sums']


@pytest.mark.parametrize('kind', ['instance', 'batch'])
def test_padding_neither_counts_nor_grows(kind):
    """Bitwise, whatever is there; it becomes the bias."""
    x, keywords = draw(), {'deterministic': False} if kind == 'batch' else {}
    changed = np.where(IS_TOKEN[..., None], x, np.float32(1e30))
    first, second = (applied(kind, each, **keywords) for each in (x, changed))
    np.testing.assert_array_equal(first, second)
    out = np.asarray(first)
    np.testing.assert_array_equal(out[~IS_TOKEN], np.broadcast_to(PARAMS['bias'], (sum(~IS_TOKEN.ravel()), D)))


def test_batch_norm_in_training_uses_the_tokens_of_its_batch():
    x = draw()
    got, sums = in_training(x)
    tokens = x[IS_TOKEN].astype(np.float64)
    expected = (tokens - tokens.mean(0)) / np.sqrt(tokens.var(0) + EPSILON) * PARAMS['scale'] + PARAMS['bias']
    np.testing.assert_allclose(np.asarray(got)[IS_TOKEN], expected, **FLOAT32)
    deviations = tokens - PARAMS['mean']
    for found, summed in zip(sums, (len(tokens), deviations.sum(0), (deviations**2).sum(0)), strict=True):
        np.testing.assert_allclose(found, summed, rtol=1e-4, atol=1e-4)


def test_batch_norm_outside_of_training_uses_running_statistics_and_sees_nothing():
    x = draw()
    got, sown = applied('batch', x, mutable=['statistics'])
    assert sown == {}
    expected = (x - PARAMS['mean']) / np.sqrt(PARAMS['variance'] + EPSILON) * PARAMS['scale'] + PARAMS['bias']
    np.testing.assert_allclose(np.asarray(got)[IS_TOKEN], expected[IS_TOKEN], **FLOAT32)


def test_norms_over_positions_compute_in_float32_and_return_their_dtype():
    x = jnp.asarray(draw(), jnp.bfloat16)
    got, exact = applied('instance', x, jnp.bfloat16), applied('instance', x.astype(jnp.float32))
    assert got.dtype == jnp.bfloat16
    np.testing.assert_array_equal(got, exact.astype(jnp.bfloat16))


def test_running_statistics_follow_the_tokens_of_all_parts():
    """Three steps of two parts each, whose sums are added up as over devices, by hand."""
    params = {'encoder': {'norm': PARAMS, 'other': 1}}
    mean, variance = PARAMS['mean'].astype(np.float64), PARAMS['variance'].astype(np.float64)
    for step in range(3):
        parts = [draw(seed=2 * step), 1 + 2 * draw(seed=2 * step + 1)]
        seen = [in_training(x, params['encoder']['norm'])[1] for x in parts]
        seen = {'encoder': {'norm': {'sums': jax.tree.map(jnp.add, *seen)}}}
        params = with_running_statistics(params, seen)
        tokens = np.concatenate([x[IS_TOKEN] for x in parts])
        mean = 0.9 * mean + 0.1 * tokens.mean(0)
        variance = 0.9 * variance + 0.1 * tokens.var(0)
    found = params['encoder']['norm']
    np.testing.assert_allclose(found['mean'], mean, **FLOAT32)
    np.testing.assert_allclose(found['variance'], variance, **FLOAT32)
    assert found['scale'] is PARAMS['scale']
    nothing = {'encoder': {'norm': {'sums': BatchSums(jnp.float32(0), jnp.zeros(D), jnp.zeros(D))}}}
    jax.tree.map(np.testing.assert_array_equal, with_running_statistics(params, nothing), params)


def test_a_step_renews_the_statistics_and_the_optimizer_leaves_them_alone():
    """No metric shows them, they have no moments, and what is no training step uses them."""
    config = replace(MODEL, encoder_norm='batch', norm_first=True)
    model, batch, tx = Transformer(config), uneven_batch(), make_optimizer(ADAMW, d_model=1, steps=9)
    loss = partial(loss_sums, model=model, label_smoothing=0.1)
    state = init_state(lambda _: drawn(parameter_shapes(config)), jax.random.key(0), tx)
    step = partial(train_step, loss=loss, weight='target_tokens', tx=tx, absorb=with_running_statistics)
    new, metrics = jax.jit(step)(state, batch, jax.random.key(1))
    assert all(np.ndim(value) == 0 for value in metrics.values())

    rows = {name: getattr(batch, name) for name in ('source_segments', 'source_positions')}
    rows |= {name: getattr(batch, name) for name in ('target_segments', 'target_positions')}
    look = partial(model.apply, {'params': state.params}, mutable=['statistics'], method='hidden', **rows)
    # Without dropout: the same as in the step.
    _, sown = jax.jit(partial(look, deterministic=False))(batch.source, batch.target)
    assert jax.tree.leaves(jax.eval_shape(look, batch.source, batch.target)[1]) == []
    seen = sown['statistics']
    assert seen['encoder']['layers_0']['self_residual']['norm']['sums'].count == (batch.source_segments > 0).sum()
    expected = dict(named_leaves(with_running_statistics(state.params, seen)))
    found, moments = dict(named_leaves(new.params)), list(named_leaves(new.opt_state))
    running = {path for path in found if path.endswith(('/mean', '/variance'))}
    norms = ('layers_0/self_residual/norm', 'layers_0/feed_forward_residual/norm', 'final_norm')
    assert running == {f'encoder/{norm}/{name}' for norm in norms for name in ('mean', 'variance')}
    before = dict(named_leaves(state.params))
    for path in running:
        np.testing.assert_allclose(found[path], expected[path], rtol=1e-4, atol=1e-6)
        assert (found[path] != before[path]).all()
        assert [np.asarray(leaf).any() for name, leaf in moments if name.endswith(path)] == [False, False]

    encode = jax.jit(lambda params: model.apply({'params': params}, batch.source, method='encode'))
    before = encode(new.params)
    new.params['encoder']['final_norm']['mean'] += 1.0
    assert (encode(new.params) != before).any()


def test_a_recomputed_encoder_returns_x_alone_and_sows_the_same_statistics():
    """`nn.remat` cuts each layer out; what its norms sow must come out with it, and no gradient flows through it."""
    config = replace(MODEL, encoder_norm='batch', norm_first=True, num_encoder_layers=2, dtype='float32')
    x, mask = draw(), jnp.ones((1, 1, 1, 1), bool)
    variables = drawn(jax.eval_shape(Encoder(config).init, jax.random.key(0), x, mask, SEGMENTS))

    def trained(remat):
        training = {'deterministic': False, 'mutable': ['statistics']}

        def loss(params):
            memory, sown = Encoder(config, remat).apply({'params': params}, x, mask, SEGMENTS, **training)
            return jnp.square(memory - 1).sum(), sown['statistics']

        return jax.jit(jax.grad(loss, has_aux=True))(variables['params'])

    (grads, seen), (expected_grads, expected) = trained(True), trained(False)
    assert len(jax.tree.leaves(seen)) == 3 * (2 * 2 + 1)  # two norms a layer, and the final one
    close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-4)  # the same sums, fused otherwise
    jax.tree.map(close, (grads, seen), (expected_grads, expected))
