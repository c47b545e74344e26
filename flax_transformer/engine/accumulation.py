"""A batch in several passes, so that a device need not hold all of its share at once."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from flax_transformer.engine.chunks import cut
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.task import Task


class Passes(NamedTuple):
    """How the rows of a batch, as a step sees them, are cut into passes."""

    count: int
    parts: int  # devices whose rows lie behind one another in the batch: each takes a part of every pass
    shardings: Any  # of the gradients, whose sum is carried from pass to pass; None: as they come

    def add_up(self, compute: Callable[[Any, jax.Array], Any], batch: Any, key: jax.Array) -> Any:
        """The sum over passes of `compute(batch, key)`, a tree of sums whose first part are gradients."""
        passes = jax.tree.map(self._cut, batch)

        def add(total: Any, numbered: tuple[jax.Array, Any]) -> tuple[Any, None]:
            number, rows = numbered
            total = jax.tree.map(jnp.add, total, compute(rows, jax.random.fold_in(key, number)))
            return self._placed(total), None

        first = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), passes)
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(compute, first, key))
        return jax.lax.scan(add, self._placed(zeros), (jnp.arange(self.count), passes))[0]

    def _cut(self, x: jax.Array) -> jax.Array:
        """[rows, ...] as [passes, rows of a pass, ...]; rows of zeros, which weigh nothing, fill the last pass."""
        passes = cut(x.reshape(self.parts, -1, *x.shape[1:]), self.count)  # [passes, parts, rows, ...]
        return passes.reshape(self.count, -1, *x.shape[1:])

    def _placed(self, total: tuple[Any, Any]) -> tuple[Any, Any]:
        grads, sums = total
        return (grads if self.shardings is None else jax.lax.with_sharding_constraint(grads, self.shardings)), sums


def make_passes(task: Task, devices: Devices, max_slots: int, shardings: Any) -> Passes | None:
    """As few passes per step as `max_slots` slots of a batch per device allow; None if one will do, or for 0 slots."""
    rows = task.rows_per_step // devices.num_row_parts
    max_rows = max_slots // task.slots_per_row
    if not max_slots or rows <= max_rows:
        return None
    return Passes(-(-rows // max_rows), devices.parts_of_a_step, shardings if devices.strategy == 'mesh' else None)
