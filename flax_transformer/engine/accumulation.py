"""Gradient accumulation: a batch in several passes, so that it need not fit into memory at once."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from flax_transformer.common.errors import UserError
from flax_transformer.engine.chunks import cut
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.task import Task


class Passes(NamedTuple):
    """How a step cuts the rows of its batch into passes."""

    count: int
    parts: int  # devices among which the step's rows are split, in order: each takes part in every pass
    shardings: Any  # of the sum of gradients, carried from pass to pass; None: XLA decides

    def add_up(self, compute: Callable[[Any, jax.Array], Any], batch: Any, key: jax.Array) -> Any:
        """The sum over passes of `compute(batch, key)`, which returns gradients and sums."""
        passes = jax.tree.map(self._cut, batch)

        def add(total: Any, numbered: tuple[jax.Array, Any]) -> tuple[Any, None]:
            number, rows = numbered
            total = jax.tree.map(jnp.add, total, compute(rows, jax.random.fold_in(key, number)))
            return self._placed(total), None

        first = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), passes)
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(compute, first, key))
        return jax.lax.scan(add, self._placed(zeros), (jnp.arange(self.count), passes))[0]

    def _cut(self, x: jax.Array) -> jax.Array:
        """[rows, ...] as [passes, rows of a pass, ...]; rows of zeros, which weigh nothing, pad the last pass."""
        passes = cut(x.reshape(self.parts, -1, *x.shape[1:]), self.count)  # [passes, parts, rows, ...]
        return passes.reshape(self.count, -1, *x.shape[1:])

    def _placed(self, total: tuple[Any, Any]) -> tuple[Any, Any]:
        grads, sums = total
        return (grads if self.shardings is None else jax.lax.with_sharding_constraint(grads, self.shardings)), sums


def make_passes(task: Task, devices: Devices, max_slots: int, shardings: Any) -> Passes | None:
    """The fewest passes with at most `max_slots` slots per device; None if one is enough, or if max_slots is 0."""
    rows = task.rows_per_step // devices.num_row_parts
    max_rows = max_slots // task.slots_per_row
    if not max_slots or rows <= max_rows:
        return None
    if not max_rows:
        raise UserError(
            f'parallel.max_tokens_per_device={max_slots}: expected at least {task.slots_per_row}, one row, or 0'
        )
    return Passes(-(-rows // max_rows), devices.row_parts_per_step, shardings if devices.strategy == 'mesh' else None)
