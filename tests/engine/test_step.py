"""One step: sums over tokens, one global division."""

from functools import partial
from typing import Any

import jax
import numpy as np
import optax
import pytest
from toy_runs import make_trainer
from toy_task import CircleConfig, CircleTask, draw

from flax_transformer.config import ParallelConfig
from flax_transformer.engine.step import gradients, train_step
from flax_transformer.engine.task import init_state

CIRCLE = CircleTask(CircleConfig())
step_of_circle = partial(train_step, loss=CIRCLE.loss, weight='weight')


@pytest.mark.parametrize('strategy', ['pmap', 'mesh'])
def test_the_old_state_is_given_away(strategy: str) -> None:
    trainer = make_trainer(CircleConfig(parallel=ParallelConfig(strategy, 2)))
    state = trainer.init_state()
    # The first call takes what `init_state` made, later ones what a step made: both must be reused.
    for _ in range(2):
        old, (state, _) = state, trainer.step(state, draw(1))
        jax.block_until_ready(state)
        assert all(leaf.is_deleted() for leaf in jax.tree.leaves((old.params, old.opt_state)))


def test_random_numbers_differ_from_step_to_step_and_repeat_with_the_seed() -> None:
    def loss(params: Any, batch: Any, key: jax.Array) -> tuple[jax.Array, Any]:
        total, sums = CIRCLE.loss(params, batch, key)
        return total * jax.random.uniform(key), sums

    tx = optax.sgd(0.0)
    step = jax.jit(partial(train_step, loss=loss, weight='weight', tx=tx))
    state = init_state(CIRCLE.init, jax.random.key(0), tx)
    later, first = step(state, draw(1), jax.random.key(0))
    _, again = step(state, draw(1), jax.random.key(0))
    _, second = step(later, draw(1), jax.random.key(0))
    _, other = step(state, draw(1), jax.random.key(1))
    assert first['loss'] == again['loss']
    assert first['loss'] != second['loss']
    assert first['loss'] != other['loss']


@pytest.mark.slow
def test_each_device_draws_its_own_random_numbers() -> None:
    def loss(params: Any, batch: Any, key: jax.Array) -> tuple[jax.Array, Any]:
        total, sums = CIRCLE.loss(params, batch, key)
        drawn = jax.random.uniform(key)
        return total, sums | {'drawn': drawn, 'squared': drawn**2}

    state = init_state(CIRCLE.init, jax.random.key(0), optax.sgd(0.0))
    of_device = partial(gradients, loss=loss, weight='weight', axis_name='devices')
    on_two = jax.vmap(of_device, in_axes=(None, 0, None), axis_name='devices')
    _, sums = on_two(state, jax.tree.map(lambda x: np.stack([x, x]), draw(1)), jax.random.key(0))
    assert 2 * sums['squared'][0] > 1.001 * sums['drawn'][0] ** 2  # equal numbers would give the same


def test_a_step_follows_the_gradient_of_the_mean_loss() -> None:
    tx, batch = optax.sgd(0.5), draw(3)  # three of its rows are empty

    def mean_loss(params: Any) -> jax.Array:
        return CIRCLE.loss(params, batch, None)[0] / batch.weight.sum()

    state = init_state(CIRCLE.init, jax.random.key(0), tx)
    params, slopes = jax.device_get((state.params, jax.jit(jax.grad(mean_loss))(state.params)))
    expected = jax.tree.map(lambda leaf, slope: leaf - 0.5 * slope, params, slopes)
    after, _ = jax.jit(partial(step_of_circle, tx=tx))(state, batch, jax.random.key(0))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-7), after.params, expected)


def test_moving_average_follows_its_formula() -> None:
    tx = optax.sgd(0.5)
    step = jax.jit(partial(step_of_circle, tx=tx, ema_decay=0.15))
    state = init_state(CIRCLE.init, jax.random.key(0), tx, has_ema=True)
    expected = np.asarray(state.params['first'])
    for number in (1, 2, 3):
        state, _ = step(state, draw(number), jax.random.key(0))
        decay = min(0.15, (1 + number) / (10 + number))
        expected = decay * expected + (1 - decay) * np.asarray(state.params['first'])
    np.testing.assert_allclose(state.ema['first'], expected, rtol=1e-5, atol=1e-7)
    assert state.params_to_keep is state.ema
