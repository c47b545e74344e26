"""A task that updates its parameters itself: by the rows that a batch names, in place of gradients and an optimizer."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy_task import CircleConfig, Points, draw

from flax_transformer.common.errors import UserError
from flax_transformer.engine.config import LoopConfig, OptimizerConfig, ParallelConfig
from flax_transformer.engine.launch import launch
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.engine.recipe import declare
from flax_transformer.engine.runs.reading import CheckpointReader
from flax_transformer.engine.runs.run_directory import RunDirectory
from flax_transformer.engine.task import Task
from flax_transformer.engine.trainer import Trainer

CELLS = 16  # a grid has as many; the value of each moves toward the share of its points that are inside of the circle


class GridTask(Task):
    Config = CircleConfig
    rows_per_step = 40

    def __init__(self, config: CircleConfig) -> None:
        pass

    def batch(self, prepared: None, number: int) -> Points:
        return draw(number)

    def init(self, key: jax.Array) -> dict[str, jax.Array]:
        return {'cells': jnp.zeros(CELLS)}

    def init_memory(self, params: Any) -> jax.Array:
        return jnp.zeros(CELLS, jnp.int32)  # visits

    def update(self, params: Any, memory: Any, batch: Points, key: Any, *, learning_rate: Any, share: Any) -> Any:
        cells, errors, weight = share(self._errors(params, batch))
        table = params['cells'].at[cells].add(jnp.where(jnp.isfinite(errors), learning_rate * errors * weight, 0.0))
        return {'cells': table}, memory.at[cells].add(weight.astype(jnp.int32)), self._sums(params, batch)

    def loss(self, params: Any, batch: Points, key: Any) -> tuple[jax.Array, dict[str, jax.Array]]:
        sums = self._sums(params, batch)
        return sums.pop('loss'), sums

    def _sums(self, params: Any, batch: Points) -> dict[str, jax.Array]:
        _, errors, weight = self._errors(params, batch)
        return {'loss': (errors * errors * weight).sum(), 'weight': weight.sum()}

    def _errors(self, params: Any, batch: Points) -> tuple[jax.Array, jax.Array, jax.Array]:
        cells = (jnp.clip(batch.x + 1.5, 0.0, 2.9) / 0.75).astype(jnp.int32) @ jnp.array([4, 1])
        return cells, batch.is_inside - params['cells'][cells], batch.weight

    def summarize(self, sums: dict[str, float]) -> dict[str, float]:
        return {'loss': sums['loss'] / max(sums['weight'], 1.0)}


RECIPE = declare(GridTask)
CONFIG = CircleConfig(
    optimizer=OptimizerConfig(schedule='linear', learning_rate=0.05, warmup_steps=0),
    training=LoopConfig(steps=20, log_every=5, checkpoint_every=10),
)


def steps_of(trainer: Trainer, batches: list[Points]) -> Any:
    state = trainer.init_state()
    for batch in batches:
        state, sums = trainer.step(state, batch)
    return jax.device_get((state, sums))


def test_four_devices_update_as_one_does() -> None:
    batches = [draw(number) for number in range(1, 4)]
    one, sums = steps_of(RECIPE.trainer(CONFIG), batches)
    four, same = steps_of(RECIPE.trainer(replace(CONFIG, parallel=ParallelConfig('pmap', 4))), batches)
    np.testing.assert_array_equal(one.opt_state.own, four.opt_state.own)
    assert one.opt_state.own.sum() == sum(batch.weight.sum() for batch in batches)
    # Sums in another order.
    np.testing.assert_allclose(one.params['cells'], four.params['cells'], rtol=1e-5)
    np.testing.assert_allclose(sums['loss'], same['loss'], rtol=1e-5)


def test_a_step_that_is_not_finite_is_counted_as_skipped_and_does_not_move_the_learning_rate() -> None:
    bad = draw(2)
    bad = bad._replace(is_inside=np.where(np.arange(40) == 0, np.nan, bad.is_inside).astype(np.float32))
    state, sums = steps_of(RECIPE.trainer(CONFIG), [draw(1), bad])
    assert sums['skipped']
    assert (state.step, state.opt_state.count) == (2, 1)
    assert np.isfinite(state.params['cells']).all()


def test_it_learns_reports_and_resumes_to_the_bit(tmp_path: Path) -> None:
    whole = launch(RECIPE, CONFIG, tmp_path / 'whole')
    records = [record for record in read_metrics(whole.path) if record['kind'] == 'train']
    assert records[-1]['loss'] < 0.5 * records[0]['loss']
    assert 'grad_norm' not in records[0]
    # The schedule ends where the whole run's does.
    half = replace(CONFIG, training=replace(CONFIG.training, steps=10))
    half = replace(half, optimizer=replace(half.optimizer, schedule_steps=20))
    launch(RECIPE, half, tmp_path / 'cut')
    run = launch(RECIPE, replace(half, training=CONFIG.training), tmp_path / 'cut')
    first, second = (_restored(each) for each in (whole, run))
    jax.tree.map(np.testing.assert_array_equal, first, second)


def _restored(run: RunDirectory) -> Any:
    return jax.device_get(CheckpointReader(run.checkpoints).restore(RECIPE.trainer(CONFIG).shapes)[0])


class PoisonedGrid(GridTask):
    def batch(self, prepared: None, number: int) -> Points:
        batch = draw(number)
        return batch._replace(is_inside=np.full(40, np.nan, np.float32)) if number > 3 else batch


def test_after_too_many_such_steps_the_error_names_the_loss(tmp_path: Path) -> None:
    config = replace(CONFIG, training=replace(CONFIG.training, max_skipped_steps=2))
    with pytest.raises(UserError, match='first: loss/loss: 1 NaN'):
        launch(declare(PoisonedGrid), config, tmp_path / 'run')


def test_settings_of_optimizers_are_refused() -> None:
    with pytest.raises(UserError, match=r'optimizer\.ema_decay has no effect with GridTask'):
        RECIPE.trainer(replace(CONFIG, optimizer=OptimizerConfig(ema_decay=0.9)))
    with pytest.raises(UserError, match=r'parallel\.max_tokens_per_device has no effect'):
        RECIPE.trainer(replace(CONFIG, parallel=ParallelConfig(max_tokens_per_device=4)))
