"""One step: sums over tokens, one global division."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tiny_translation import LOSS, MODEL, fresh_params, uneven_batch
from toy_runs import make_trainer
from toy_task import CircleConfig, CircleTask, draw

from flax_transformer.common.errors import UserError
from flax_transformer.config import ParallelConfig
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.recipe import declare
from flax_transformer.engine.step import train_step
from flax_transformer.engine.task import TrainState, init_state
from flax_transformer.tasks.translation.task import loss_sums
from flax_transformer.transformer.model import Transformer, init_params

step_of = partial(train_step, weight='target_tokens')
CIRCLE = CircleTask(CircleConfig())
step_of_circle = partial(train_step, loss=CIRCLE.loss, weight='weight')


def one_update(strategy: str, num_devices: int, params: Any) -> tuple[Any, dict[str, Any]]:
    """Gradients (by SGD of rate 1) and metrics of the uneven batch."""
    devices = Devices(ParallelConfig(strategy, num_devices))
    tx = optax.sgd(1.0)
    chunked = partial(
        LOSS, loss_chunk=4 * 8 // num_devices * devices.row_parts_per_step
    )  # of 12 positions of each row, 4
    step = devices.compile(partial(step_of, loss=chunked, tx=tx))
    state = devices.replicate(TrainState(jnp.int32(0), params, tx.init(params), None))
    new, metrics = step(state, devices.split(uneven_batch()), jax.random.key(0))
    grads = jax.tree.map(lambda old, new: np.asarray(old) - np.asarray(new), params, new.params)
    return grads, jax.device_get(metrics)


@pytest.fixture(scope='module')
def params() -> Any:
    return fresh_params()


@pytest.fixture(scope='module')
def on_one_device(params: Any) -> tuple[Any, dict[str, Any]]:
    (loss, sums), grads = jax.jit(jax.value_and_grad(LOSS, has_aux=True))(params, uneven_batch(), None)
    return jax.tree.map(lambda g: g / sums['target_tokens'], grads), sums | {'loss': loss}


@pytest.mark.parametrize(
    ('strategy', 'num_devices'),
    [
        ('pmap', 8),
        ('mesh', 8),
        *(pytest.param(name, n, marks=pytest.mark.slow) for name in ('pmap', 'mesh') for n in (1, 2, 4)),
    ],
)
def test_gradients_do_not_depend_on_the_devices(
    strategy: str, num_devices: int, params: Any, on_one_device: tuple[Any, dict[str, Any]]
) -> None:
    """Point 7: of means of means, uneven rows would show: here two rows of eight are empty."""
    expected_grads, expected = on_one_device
    grads, metrics = one_update(strategy, num_devices, params)
    assert metrics['target_tokens'] == expected['target_tokens'] == 43
    np.testing.assert_allclose(metrics['loss'], expected['loss'], rtol=1e-6)
    # float32 sums in another order: some 1e-7 of the largest term.
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-6), grads, expected_grads)


def test_gradients_are_those_of_the_mean_over_all_tokens(
    params: Any, on_one_device: tuple[Any, dict[str, Any]]
) -> None:
    batch = uneven_batch()

    def mean(params: Any) -> jax.Array:
        loss, sums = LOSS(params, batch, None)
        return loss / sums['target_tokens']

    expected = jax.jit(jax.grad(mean))(params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-6), on_one_device[0], expected)


@pytest.mark.parametrize('strategy', ['pmap', 'mesh'])
def test_the_old_state_is_given_away(strategy: str) -> None:
    trainer = make_trainer(CircleConfig(parallel=ParallelConfig(strategy, 2)))
    state = trainer.init_state()
    # The first call takes what `init_state` made, later ones what a step made: both must be reused.
    for _ in range(2):
        old, (state, _) = state, trainer.step(state, draw(1))
        jax.block_until_ready(state)
        assert all(leaf.is_deleted() for leaf in jax.tree.leaves((old.params, old.opt_state)))


def test_rows_that_do_not_divide_among_the_devices_are_refused() -> None:
    with pytest.raises(UserError, match=r'8 rows, .* among 3 devices'):
        Devices(ParallelConfig('pmap', 3)).check_rows(8)


def test_more_devices_than_there_are_is_refused() -> None:
    with pytest.raises(UserError, match='num_devices=99: this process sees 8 cpu'):
        Devices(ParallelConfig('pmap', 99))


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


def test_a_step_in_bfloat16_keeps_parameters_and_sums_in_float32(params: Any) -> None:
    """What `dtype = auto` means on an accelerator."""
    model = Transformer(replace(MODEL, dtype='bfloat16'))
    tx = optax.sgd(1.0)
    state = TrainState(jnp.int32(0), params, tx.init(params), None)
    updates = {}
    for name, loss in (('float32', LOSS), ('bfloat16', partial(loss_sums, model=model, label_smoothing=0.1))):
        new, metrics = jax.jit(partial(step_of, loss=loss, tx=tx))(state, uneven_batch(), jax.random.key(0))
        assert {leaf.dtype for leaf in jax.tree.leaves((new.params, metrics['loss']))} == {jnp.dtype('float32')}
        updates[name] = np.concatenate(
            [np.ravel(a - b) for a, b in zip(*map(jax.tree.leaves, (params, new.params)), strict=True)]
        )
    exact, rounded = updates['float32'], updates['bfloat16']
    # bfloat16 has 8 bits: a few tenths of a percent a product, more where terms cancel.
    assert np.linalg.norm(rounded - exact) < 0.05 * np.linalg.norm(exact)


def test_initial_parameters_depend_on_the_seed_alone() -> None:
    first, again, other = (init_params(MODEL, jax.random.key(seed)) for seed in (1, 1, 2))
    assert all(jax.tree.leaves(jax.tree.map(lambda a, b: bool((a == b).all()), first, again)))
    assert not (first['embedding']['table'] == other['embedding']['table']).all()


class FollowingTask(CircleTask):
    """Also counts the examples that it has seen, in a parameter without a gradient."""

    def init(self, key: jax.Array) -> dict[str, jax.Array]:
        return super().init(key) | {'seen': jnp.zeros(())}

    def loss(self, params: Any, batch: Any, key: jax.Array | None) -> tuple[jax.Array, Any]:
        total, sums = super().loss(params, batch, key)
        return total, sums if key is None else sums | {'statistics': {'seen': batch.weight.sum()}}

    def absorb(self, params: Any, statistics: Any) -> Any:
        return params | {'seen': params['seen'] + statistics['seen']}


@pytest.mark.parametrize(('strategy', 'num_devices', 'passes'), [('pmap', 8, 3), ('mesh', 8, 0)])
def test_statistics_of_all_devices_and_passes_are_absorbed(strategy: str, num_devices: int, passes: int) -> None:
    """And nobody reports them; a skipped step absorbs nothing."""
    config = CircleConfig(parallel=ParallelConfig(strategy, num_devices, max_tokens_per_device=passes))
    config = replace(config, optimizer=replace(config.optimizer, ema_decay=0.5))
    trainer = declare(FollowingTask).trainer(config)
    state, expected = trainer.init_state(), 0.0
    for number in (1, 2):
        state, metrics = trainer.step(state, draw(number))
        expected += draw(number).weight.sum()
        assert (float(state.params['seen']), 'statistics' in metrics) == (expected, False)
    assert 0 < float(state.ema['seen']) < expected
    batch = draw(3)
    state, metrics = trainer.step(state, batch._replace(x=np.full_like(batch.x, np.nan)))
    assert (float(state.params['seen']), bool(metrics['skipped'])) == (expected, True)
