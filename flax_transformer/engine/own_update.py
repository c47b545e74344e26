"""The step of a task that updates its parameters itself (`Task.update`)."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from flax_transformer.common.errors import UserError
from flax_transformer.engine.config import EngineConfig
from flax_transformer.engine.optimizer import Schedule
from flax_transformer.engine.step import TrainState
from flax_transformer.engine.task import Batch, Params, Sums, Task


class Memory(NamedTuple):
    """The optimizer state of such a task."""

    count: jax.Array  # updates done without the skipped ones, int32: the learning rate follows it
    own: Any  # what the task keeps besides the parameters


class OwnUpdate:
    """Stands where an optax transformation does: `init` makes the state, `step` is the train step."""

    def __init__(self, task: Task, config: EngineConfig, rate: Schedule) -> None:
        """Raises UserError for settings that only optimizers heed."""
        for name, is_set in {
            'optimizer.freeze': bool(config.optimizer.freeze),
            'optimizer.ema_decay': config.optimizer.ema_decay > 0,
            'parallel.max_tokens_per_device': config.parallel.max_tokens_per_device > 0,
        }.items():
            if is_set:
                raise UserError(f'{name} has no effect with {type(task).__name__}, which updates its parameters itself')
        self._task, self._rate = task, rate

    def init(self, params: Params) -> Memory:
        return Memory(jnp.zeros((), jnp.int32), self._task.init_memory(params))

    def step(
        self, state: TrainState, batch: Batch, key: jax.Array, *, axis_name: str | None = None
    ) -> tuple[TrainState, Sums]:
        """The state after one step, and metrics: the task's sums, and whether the step was `skipped`.

        The task itself leaves out what is not finite: keeping the old tables for `jnp.where` would copy them.
        """
        memory: Memory = state.opt_state
        key, share = jax.random.fold_in(key, state.step), lambda rows: rows
        if axis_name:
            key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
            share = partial(jax.lax.all_gather, axis_name=axis_name, tiled=True)
        rate = self._rate(memory.count + 1)
        params, own, sums = self._task.update(state.params, memory.own, batch, key, learning_rate=rate, share=share)
        if missing := {'loss', self._task.counts[0]} - set(sums):
            raise ValueError(f'Task.update returned the sums {", ".join(sums)}; expected {", ".join(missing)} too')
        if axis_name:
            sums = jax.lax.psum(sums, axis_name)
        is_finite = jnp.isfinite(sums['loss'])
        memory = Memory(memory.count + is_finite, own)
        return state._replace(step=state.step + 1, params=params, opt_state=memory), sums | {'skipped': ~is_finite}
