"""Steps that are not finite: skipped, counted, and in the end explained."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from conftest import copy_config
from tiny_translation import LOSS, fresh_params, uneven_batch

from flax_transformer import train
from flax_transformer.common.errors import UserError
from flax_transformer.config import ParallelConfig
from flax_transformer.data.bitext.batches import Batch
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.engine.non_finite import first_non_finite, load_batch, save_batch
from flax_transformer.engine.state import TrainState
from flax_transformer.engine.step import gradients, train_step
from flax_transformer.engine.trainer import Trainer
from flax_transformer.tasks.translation.task import TranslationTask, make_trainer


def poisoned_loss(params: Any, batch: Any, key: Any, *, value: float, where: str) -> tuple[jax.Array, Any]:
    """The loss; not finite for a batch whose first source id is 29."""
    loss, sums = LOSS(params, batch, None)
    is_poisoned = (batch.source == 29).any()
    bad = jnp.where(is_poisoned, value, 0.0)
    if where == 'loss':
        return loss + bad, sums
    # Finite itself, but its gradient is not.
    return loss + jnp.where(is_poisoned, bad * params['embedding']['table'].sum(), 0.0), sums


def poisoned(batch: Any) -> Any:
    """In one row alone: one device of several meets it."""
    source = batch.source.copy()
    source[0, 0] = 29
    return batch._replace(source=source)


@pytest.fixture(scope='module')
def params() -> Any:
    return fresh_params()


@pytest.mark.parametrize(
    ('strategy', 'num_devices', 'value', 'where'),
    [('pmap', 4, math.nan, 'loss'), ('mesh', 4, math.nan, 'gradients'), ('pmap', 1, math.inf, 'gradients')],
)
def test_a_poisoned_step_changes_nothing_but_the_step(
    strategy: str, num_devices: int, value: float, where: str, params: Any
) -> None:
    """Parameters, moments, their counts and the average: to the bit, on every device."""
    devices = Devices(ParallelConfig(strategy, num_devices))
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(optax.linear_schedule(1e-2, 0.0, 100)))
    loss = partial(poisoned_loss, value=value, where=where)
    step = devices.compile(partial(train_step, loss=loss, weight='target_tokens', tx=tx, ema_decay=0.9))
    state = devices.replicate(TrainState(jnp.int32(0), params, tx.init(params), params))
    good = jax.tree.map(lambda x: np.where(x == 29, 3, x), uneven_batch())
    state, metrics = step(state, devices.split(good), jax.random.key(0))
    assert not metrics['skipped']
    after, metrics = step(state, devices.split(poisoned(good)), jax.random.key(0))
    assert metrics['skipped']
    assert int(after.step) == int(state.step) + 1 == 2
    jax.tree.map(np.testing.assert_array_equal, after._replace(step=state.step), state)
    # And a good step goes on from there as if nothing had been.
    expected, _ = step(state._replace(step=after.step), devices.split(good), jax.random.key(0))
    third, metrics = step(after, devices.split(good), jax.random.key(0))
    assert not metrics['skipped']
    jax.tree.map(np.testing.assert_array_equal, third, expected)


def test_gradients_beyond_float32_in_their_norm_are_skipped_and_explained(params: Any) -> None:
    """Each is finite, their squares are not: Adam's second moment would never come back."""

    def loss(params: Any, batch: Any, _: Any) -> tuple[jax.Array, Any]:
        total, sums = LOSS(params, batch, None)
        return 1e30 * total, sums

    loss = {'loss': loss, 'weight': 'target_tokens'}
    tx = optax.adam(1e-3)
    state = TrainState(jnp.int32(0), params, tx.init(params), None)
    _, metrics = jax.jit(partial(train_step, **loss, tx=tx))(state, uneven_batch(), jax.random.key(0))
    assert metrics['skipped']
    grads, sums = jax.jit(partial(gradients, **loss))(state, uneven_batch(), jax.random.key(0))
    assert 'norm of the gradients is beyond float32: the largest value is ' in first_non_finite(params, grads, sums)


def test_the_first_tensor_is_named_parameters_before_loss_before_gradients(params: Any) -> None:
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
    batch = uneven_batch()
    assert batch.corpora is None
    for each in (batch, batch._replace(corpora=np.ones_like(batch.target))):
        again = load_batch(save_batch(tmp_path / 'batch.npz', each))
        assert ('corpora' in again) == (each.corpora is not None)
        jax.tree.map(np.testing.assert_array_equal, Batch(**again), each)


def training_with(monkeypatch: pytest.MonkeyPatch, is_bad: Any) -> None:
    """Batches of which `is_bad` of their number, from 1, make the loss infinite."""

    whole = TranslationTask.loss

    def loss(self: TranslationTask, params: Any, batch: Any, key: Any) -> tuple[jax.Array, Any]:
        total, sums = whole(self, params, batch, key)
        return total * jnp.where((batch.source_positions == 1_000_000).any(), jnp.inf, 1.0), sums

    monkeypatch.setattr(TranslationTask, 'loss', loss)
    made = Trainer.step

    def step(self: Trainer, state: TrainState, batch: Any) -> Any:
        return made(self, state, poison(batch) if is_bad(int(state.step) + 1) else batch)

    def poison(batch: Any) -> Any:
        batch.source_positions[0, -1] = 1_000_000  # in place: it is this batch that is kept for replay
        return batch

    monkeypatch.setattr(Trainer, 'step', step)


def config_of(folder: Path, **training: Any) -> Any:
    config = copy_config(folder, evaluate_every=100, checkpoint_every=100, **training)
    return replace(config, data=replace(config.data, validation=''))


def test_single_bad_steps_are_counted_reported_and_survived(
    copy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    training_with(monkeypatch, lambda step: step in (3, 5, 6))
    train(config_of(copy_folder, steps=10, log_every=4, max_skipped_steps=3), tmp_path)
    records = [record for record in read_metrics(tmp_path) if record['kind'] == 'train']
    assert [(record['step'], record['skipped_steps']) for record in records] == [(4, 1), (8, 2), (10, 0)]
    assert all(math.isfinite(value) for record in records for value in record.values() if not isinstance(value, str))
    schedule = make_trainer(config_of(copy_folder, steps=10)).learning_rate
    assert records[1]['learning_rate'] == pytest.approx(float(schedule(8 - 3)))  # updates, not steps
    assert capsys.readouterr().err.count('are not finite; the update is skipped') == 3


@pytest.mark.parametrize('max_skipped_steps', [1, pytest.param(3, marks=pytest.mark.slow)])
def test_too_many_in_a_row_stop_training_with_a_report_and_the_batch(
    max_skipped_steps: int, copy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training_with(monkeypatch, lambda step: step >= 4)
    config = config_of(copy_folder, steps=20, log_every=50, max_skipped_steps=max_skipped_steps)
    last = 3 + max_skipped_steps
    with pytest.raises(UserError) as caught:
        train(config, tmp_path)
    assert f'step {last}: the loss or its gradients are not finite, again and again' in str(caught.value)
    assert 'first: loss/loss: 0 NaN and 1 infinite of 1 values' in str(caught.value)
    batch = load_batch(tmp_path / f'not_finite_step_{last}.npz')
    assert str(tmp_path / f'not_finite_step_{last}.npz') in str(caught.value)
    trainer = make_trainer(config)
    _, sums = trainer.gradients(trainer.init_state(), Batch(**batch))
    assert not np.isfinite(sums['loss'])
