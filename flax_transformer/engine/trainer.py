"""A task's compiled steps on its devices."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.ops.int8 import rounded_where

from .config import EngineConfig
from .devices import multihost
from .devices.devices import Devices
from .optimizer import Schedule, make_optimizer, make_schedule
from .step import eval_step, frozen_by, gradients, key_of_step, make_passes, stop_gradients, train_step
from .task import Batch, Params, Sums, Task, TrainState, init_state


class Memory(NamedTuple):
    """The optimizer state of a task that updates its parameters itself."""

    count: jax.Array  # updates done without the skipped ones, int32: the learning rate follows it
    own: Any  # what the task keeps besides the parameters


class OwnUpdate:
    """Takes the place of an optax transformation: `init` makes the state, `step` is the train step."""

    def __init__(self, task: Task, config: EngineConfig, rate: Schedule) -> None:
        is_set = {
            'optimizer.freeze': config.optimizer.freeze,
            'optimizer.ema_decay': config.optimizer.ema_decay,
            'training.int8_share': config.training.int8_share,
            'parallel.max_tokens_per_device': config.parallel.max_tokens_per_device,
            'parallel.sum_gradients_in': config.parallel.sum_gradients_in != 'float32',
        }
        if name := next(filter(is_set.get, is_set), None):
            raise UserError(f'{name} has no effect with {type(task).__name__}, which updates its parameters itself')
        self._task = task
        self._rate = rate

    def init(self, params: Params) -> Memory:
        return Memory(jnp.zeros((), jnp.int32), self._task.init_memory(params))

    def step(
        self, state: TrainState, batch: Batch, key: jax.Array, *, axis_name: str | None = None
    ) -> tuple[TrainState, Sums]:
        """The state after one step, and metrics: the task's sums, and whether the step was `skipped`."""
        # The task itself skips what is not finite: keeping the old tables for `jnp.where` would copy them.
        memory: Memory = state.opt_state
        key = key_of_step(key, state, axis_name)

        def share(rows: Any) -> Any:
            return jax.lax.all_gather(rows, axis_name, tiled=True) if axis_name else rows

        rate = self._rate(memory.count + 1)
        params, own, sums = self._task.update(state.params, memory.own, batch, key, learning_rate=rate, share=share)
        if missing := {'loss', self._task.counts[0]} - set(sums):
            raise ValueError(f'Task.update returned the sums {", ".join(sums)}; expected {", ".join(missing)} too')
        if axis_name:
            sums = jax.lax.psum(sums, axis_name)
        is_finite = jnp.isfinite(sums['loss'])
        memory = Memory(memory.count + is_finite, own)
        return state._replace(step=state.step + 1, params=params, opt_state=memory), sums | {'skipped': ~is_finite}


class Trainer:
    """Steps of a task, compiled for its devices."""

    def __init__(self, task: Task, config: EngineConfig, devices: Devices) -> None:
        self.task = task
        self.config = config
        self.devices = devices
        shapes = jax.eval_shape(task.init, jax.random.key(config.seed))
        self.is_frozen = frozen_by(config.optimizer.freeze, shapes) if config.optimizer.freeze else None
        self.learning_rate = self._schedule(config.schedule_end)
        self.tx = self._optimizer_for(self.learning_rate)
        self.own_rows = devices.own_rows(task.rows_per_step)  # this process's, of a batch

        # Shapes only: the state may be too large for one device.
        shapes = jax.eval_shape(self._fresh_state)
        self.shardings = devices.shardings(shapes, task.sharding_rules)
        self.shapes = jax.tree.map(
            lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), shapes, self.shardings
        )

        self.passes = make_passes(task, devices, config.parallel.max_tokens_per_device, self.shardings.params)
        loss = task.loss
        if self.is_frozen is not None:

            def loss(params: Params, *rest: Any) -> tuple[jax.Array, Sums]:
                return task.loss(stop_gradients(params, self.is_frozen), *rest)

        self._common = {
            'loss': loss,
            'weight': task.counts[0],
            'passes': self.passes,
            'sum_in': config.parallel.sum_gradients_in,
        }
        params = self.shardings.params
        result = (self.shardings, devices.replicated)
        self.compiled_step = devices.compile(self._step, state=self.shardings, result=result, donate_state=True)
        self._gradients = devices.compile(
            partial(gradients, **self._common), state=self.shardings, result=(params, devices.replicated)
        )
        self._eval_step = devices.compile(partial(eval_step, loss=task.loss), state=params)

        # Different from the key of the initial parameters.
        key = partial(jax.random.key, config.seed + 1)
        self._key = key() if multihost.count() == 1 else jax.jit(key, out_shardings=devices.replicated)()

    def _schedule(self, steps: Any) -> Schedule:
        optimizer = replace(self.config.optimizer, schedule_steps=None)  # in `steps` already
        is_fitted = self.config.training.is_fitted
        return make_schedule(optimizer, d_model=self.task.d_model, steps=steps, is_fitted=is_fitted)

    def _optimizer_for(self, rate: Schedule) -> Any:
        if self.task.update is None:
            return make_optimizer(self.config.optimizer, rate, is_frozen=self.is_frozen)
        return OwnUpdate(self.task, self.config, rate)

    def set_steps(self, steps: int) -> None:
        self.config = replace(self.config, training=replace(self.config.training, steps=steps))
        self.learning_rate = self._schedule(self.config.schedule_end)

    def _step(self, state: TrainState, batch: Batch, rest: Any, **axis: Any) -> tuple[TrainState, Sums]:
        """The train step; it takes the schedule's steps and those in all, so that others need not be compiled again."""
        key, (scheduled, steps) = rest
        tx = self._optimizer_for(self._schedule(scheduled))
        if isinstance(tx, OwnUpdate):
            return tx.step(state, batch, key, **axis)
        options = {'ema_decay': self.config.optimizer.ema_decay, 'is_frozen': self.is_frozen, **self._common}
        if share := self.config.training.int8_share:
            rounded = partial(rounded_where, state.step >= (1 - share) * steps)
            options['loss'] = lambda params, *rest: self._common['loss'](rounded(params), *rest)
        return train_step(state, batch, key, tx=tx, **options, **axis)

    def _with_steps(self, key: Any) -> Any:
        return key, (np.int32(self.config.schedule_end), np.int32(self.config.training.steps))

    def _fresh_state(self, params: Params = None) -> TrainState:
        key = jax.random.key(self.config.seed)
        has_ema = self.config.optimizer.ema_decay > 0
        return init_state(self.task.init, key, self.tx, has_ema=has_ema, params=params)

    def init_state(self, params: Params = None) -> TrainState:
        """The state before the first step, on its devices, from `params` (donated) if given."""
        if params is None and (self.devices.strategy == 'mesh' or multihost.count() > 1):
            return jax.jit(self._fresh_state, out_shardings=self.shardings)()  # no device ever holds the whole state
        return self.devices.put(self._fresh_state(params), self.shardings)

    def step(self, state: TrainState, batch: Batch) -> tuple[TrainState, Sums]:
        """One update over all devices, dispatched but not waited for; `state` is donated.

        With several processes, each passes its own rows of the batch (`Devices.own_rows`).
        """
        return self.compiled_step(state, self._split(batch), self._with_steps(self._key))

    def gradients(self, state: TrainState, batch: Batch) -> tuple[Params, Sums]:
        """The gradients that `step` would compute from the same state and batch without int8_share, and its sums."""
        return self._gradients(state, self._split(batch), self._key)

    def sums(self, params: Params, batch: Batch) -> Sums:
        """The sums over a batch, without dropout."""
        return self._eval_step(params, self._split(batch), self._key)

    def _split(self, batch: Batch) -> Batch:
        own = len(self.own_rows)
        rows = {len(x) for x in jax.tree.leaves(batch)}
        if rows != {own}:
            raise ValueError(
                f'a batch has {", ".join(map(str, sorted(rows)))} rows; expected {own}, from '
                f'Task.rows_per_step={self.task.rows_per_step} (with several processes: Devices.own_rows)'
            )
        return self.devices.split(batch, self.task.rows_per_step)

    def evaluate(self, params: Params, batches: Iterable[Batch]) -> dict[str, float]:
        """The task's summary of the sums over all batches, without dropout; {} if there are none."""
        sums = add_up(self._eval_step(params, self.devices.split(batch), self._key) for batch in batches)
        return self.task.summarize(sums) if sums else {}

    def lower(self) -> jax.stages.Lowered:
        """The train step, ready to compile for devices that need not be present."""
        batch = self.task.batch_shapes()
        if batch is None:
            raise UserError(f'{type(self.task).__name__} has no batch_shapes, needed to compile its step ahead')
        key = jax.eval_shape(lambda: jax.random.key(0))
        return self.compiled_step.lower(self.shapes, batch, self._with_steps(key))


def add_up(sums_of_batches: Iterable[Sums]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for sums in sums_of_batches:
        totals = {name: totals.get(name, 0.0) + float(value) for name, value in jax.device_get(sums).items()}
    return totals
