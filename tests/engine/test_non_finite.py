"""Steps that are not finite: skipped, counted, and in the end explained."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tiny_translation import uneven_batch
from toy_runs import make_trainer, train_circle
from toy_task import CircleConfig, CircleTask, Points, draw

from flax_transformer.common.errors import UserError
from flax_transformer.data.bitext.batches import Batch
from flax_transformer.engine.config import LoopConfig, OptimizerConfig, ParallelConfig
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.engine.non_finite import first_non_finite, load_batch, save_batch
from flax_transformer.engine.step import gradients, train_step
from flax_transformer.engine.task import TrainState, init_state
from flax_transformer.engine.trainer import Trainer

CIRCLE = CircleTask(CircleConfig())
POISON = 1e6  # a coordinate that no point has


def poisoned(batch: Points) -> Points:
    """In one row alone: one device of several meets it."""
    x = batch.x.copy()
    x[0, 0] = POISON
    return batch._replace(x=x)


@jax.custom_vjp
def add_to_gradient(x: jax.Array, summand: jax.Array) -> jax.Array:
    """x itself: the loss stays finite where its gradient is not."""
    return x


add_to_gradient.defvjp(lambda x, summand: (x, summand), lambda summand, g: (g + summand, jnp.zeros_like(summand)))


def poisoned_loss(params: Any, batch: Points, key: Any, *, value: float, where: str) -> tuple[jax.Array, Any]:
    """The loss; not finite for a poisoned batch."""
    bad = jnp.where((batch.x == POISON).any(), value, 0.0)
    if where == 'gradients':
        params = params | {'second': add_to_gradient(params['second'], bad)}
    loss, sums = CIRCLE.loss(params, batch, key)
    return loss + bad if where == 'loss' else loss, sums


@pytest.mark.parametrize(
    ('strategy', 'num_devices', 'value', 'where'),
    [('pmap', 4, math.nan, 'loss'), ('mesh', 4, math.inf, 'gradients')],
)
def test_a_poisoned_step_changes_nothing_but_the_step(
    strategy: str, num_devices: int, value: float, where: str
) -> None:
    """Parameters, moments, their counts and the average: to the bit, on every device."""
    devices = Devices(ParallelConfig(strategy, num_devices))
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(optax.linear_schedule(1e-2, 0.0, 100)))
    loss = partial(poisoned_loss, value=value, where=where)
    step = devices.compile(partial(train_step, loss=loss, weight='weight', tx=tx, ema_decay=0.9))
    state = devices.put(init_state(CIRCLE.init, jax.random.key(3), tx, has_ema=True), devices.replicated)
    good = draw(4)
    state, metrics = step(state, devices.split(good), jax.random.key(0))
    assert not metrics['skipped']
    after, metrics = step(state, devices.split(poisoned(good)), jax.random.key(0))
    assert metrics['skipped']
    assert bool(jnp.isfinite(metrics['loss'])) == (where == 'gradients')
    assert int(after.step) == int(state.step) + 1 == 2
    jax.tree.map(np.testing.assert_array_equal, after._replace(step=state.step), state)
    # And a good step goes on from there as if nothing had been.
    expected, _ = step(state._replace(step=after.step), devices.split(good), jax.random.key(0))
    third, metrics = step(after, devices.split(good), jax.random.key(0))
    assert not metrics['skipped']
    jax.tree.map(np.testing.assert_array_equal, third, expected)


def test_gradients_beyond_float32_in_their_norm_are_skipped_and_explained() -> None:
    """Each is finite, their squares are not: Adam's second moment would never come back."""

    def loss(params: Any, batch: Points, key: Any) -> tuple[jax.Array, Any]:
        total, sums = CIRCLE.loss(params, batch, key)
        return 1e30 * total, sums

    tx = optax.adam(1e-3)
    state, loss = init_state(CIRCLE.init, jax.random.key(3), tx), {'loss': loss, 'weight': 'weight'}
    _, metrics = jax.jit(partial(train_step, **loss, tx=tx))(state, draw(1), jax.random.key(0))
    assert metrics['skipped']
    grads, sums = jax.jit(partial(gradients, **loss))(state, draw(1), jax.random.key(0))
    assert 'norm of the gradients is beyond float32: the largest value is ' in (
        first_non_finite(state.params, grads, sums)
    )


def test_the_first_tensor_is_named_parameters_before_loss_before_gradients() -> None:
    params = {'decoder': {'layers_0': {'feed_forward': {'inner': {'kernel': np.ones((16, 32), np.float32)}}}}}
    good = {'loss': 1.0, 'nll': 1.0}
    ruined = jax.tree.map(np.array, params)
    ruined['decoder']['layers_0']['feed_forward']['inner']['kernel'][0, :3] = [math.nan, math.inf, -math.inf]
    name = 'decoder/layers_0/feed_forward/inner/kernel: 1 NaN and 2 infinite of 512 values'
    assert first_non_finite(ruined, ruined, {'loss': math.nan, 'nll': 1.0}) == f'parameters/{name}'
    assert first_non_finite(params, ruined, {'loss': math.nan, 'nll': 1.0}) == (
        'loss/loss: 1 NaN and 0 infinite of 1 values'
    )
    assert first_non_finite(params, ruined, good) == f'gradients/{name}'


def test_a_batch_comes_back_as_it_was(tmp_path: Path) -> None:
    batch = uneven_batch()  # a NamedTuple; corpora is None
    assert batch.corpora is None
    for each in (batch, batch._replace(corpora=np.ones_like(batch.target))):
        again = load_batch(save_batch(tmp_path / 'batch.npz', each))
        assert ('corpora' in again) == (each.corpora is not None)
        jax.tree.map(np.testing.assert_array_equal, Batch(**again), each)


def poison_steps(monkeypatch: pytest.MonkeyPatch, is_bad: Callable[[int], bool]) -> None:
    """Makes the loss infinite for the batches of these steps, counted from 1."""
    loss, step = CircleTask.loss, Trainer.step

    def infinite_loss(self: CircleTask, params: Any, batch: Points, key: Any) -> tuple[jax.Array, Any]:
        total, sums = loss(self, params, batch, key)
        return total * jnp.where((batch.x == POISON).any(), jnp.inf, 1.0), sums

    def poisoned_step(self: Trainer, state: TrainState, batch: Points) -> Any:
        if is_bad(int(state.step) + 1):
            batch.x[0, 0] = POISON  # changed where it is: this batch is kept for replay
        return step(self, state, batch)

    monkeypatch.setattr(CircleTask, 'loss', infinite_loss)
    monkeypatch.setattr(Trainer, 'step', poisoned_step)


def config_of(**training: Any) -> CircleConfig:
    settings = {'evaluate_every': 100, 'checkpoint_every': 100} | training
    optimizer = OptimizerConfig(schedule='linear', learning_rate=1e-2, warmup_steps=25, schedule_steps=250)
    return CircleConfig(training=LoopConfig(**settings), optimizer=optimizer)


def test_single_bad_steps_are_counted_reported_and_survived(tmp_path: Path, monkeypatch, capsys) -> None:
    poison_steps(monkeypatch, lambda step: step in (3, 5, 6))
    config = config_of(steps=10, log_every=4, max_skipped_steps=3)
    train_circle(tmp_path, config)
    records = [record for record in read_metrics(tmp_path) if record['kind'] == 'train']
    assert [(record['step'], record['skipped_steps']) for record in records] == [(4, 1), (8, 2), (10, 0)]
    assert all(math.isfinite(value) for record in records for value in record.values() if not isinstance(value, str))
    schedule = make_trainer(config).learning_rate
    assert records[1]['learning_rate'] == pytest.approx(float(schedule(8 - 3)))  # updates, not steps
    assert capsys.readouterr().err.count('are not finite; the update is skipped') == 3


def test_too_many_in_a_row_stop_training_with_a_report_and_the_batch(tmp_path: Path, monkeypatch) -> None:
    poison_steps(monkeypatch, lambda step: step >= 4)
    config = config_of(steps=20, log_every=50, max_skipped_steps=3)
    with pytest.raises(UserError) as caught:
        train_circle(tmp_path, config)
    assert 'step 6: the loss or its gradients are not finite, too many times in a row' in str(caught.value)
    assert 'first: loss/loss: 0 NaN and 1 infinite of 1 values' in str(caught.value)
    file = tmp_path / 'not_finite_step_6.npz'
    assert str(file) in str(caught.value)
    batch = Points(**load_batch(file))
    jax.tree.map(np.testing.assert_array_equal, batch, poisoned(draw(5)))  # batches count from 0
    trainer = make_trainer(config)
    _, sums = trainer.gradients(trainer.init_state(), batch)
    assert not np.isfinite(sums['loss'])
