"""Norms over positions and over batches, their running statistics, and what training makes of these."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_translation import MODEL, drawn, uneven_batch

from benchmarks.encoder_norms import (
    NORMS,
    BatchNormTask,
    BatchSums,
    Config,
    with_running_statistics,
)
from flax_transformer.common.trees import named_leaves
from flax_transformer.engine.config import OptimizerConfig, ParallelConfig

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
    norm = NORMS[kind](EPSILON, dtype)
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


@pytest.mark.slow
def test_a_step_renews_the_statistics_and_the_optimizer_leaves_them_alone():
    """No metric shows them, they have no moments, and what is no training step uses them."""
    config = replace(
        Config(), model=replace(MODEL, norm_first=True), optimizer=ADAMW, parallel=ParallelConfig(num_devices=1)
    )
    task, batch = BatchNormTask(config, platform='cpu'), uneven_batch()
    params = drawn(jax.eval_shape(task.init, jax.random.key(0)))
    step = jax.jit(partial(task.update, learning_rate=None, share=None))
    new, moments, sums = step(params, task.init_memory(params), batch, jax.random.key(1))
    assert all(np.ndim(value) == 0 for value in sums.values())

    seen = jax.jit(lambda params, batch, key: task.loss_and_statistics(params, batch, key)[2])(
        params, batch, jax.random.key(1)
    )
    assert seen['encoder']['layers_0']['self_residual']['norm']['sums'].count == (batch.source_segments > 0).sum()
    before, found = dict(named_leaves(params)), dict(named_leaves(new))
    expected = dict(named_leaves(with_running_statistics(params, seen)))
    running = {path for path in found if path.endswith(('/mean', '/variance'))}
    norms = ('layers_0/self_residual/norm', 'layers_0/feed_forward_residual/norm', 'final_norm')
    assert running == {f'encoder/{norm}/{name}' for norm in norms for name in ('mean', 'variance')}
    for path in running:
        np.testing.assert_allclose(found[path], expected[path], rtol=1e-4, atol=1e-6)
        assert (found[path] != before[path]).all()
        assert not any(np.asarray(leaf).any() for name, leaf in named_leaves(moments) if name.endswith(path))

    evaluated = jax.jit(lambda params: task.loss(params, batch, None)[0])
    loss = evaluated(new)
    new['encoder']['final_norm']['mean'] += 1.0
    assert evaluated(new) != loss
