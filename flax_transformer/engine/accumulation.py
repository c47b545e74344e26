"""A batch in several passes, so that a device need not hold all of its share at once."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from flax_transformer.engine.devices.devices import Devices
from flax_transformer.tasks.translation.config import Config


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
        """[passes, rows of a pass, ...] of [rows, ...]; where they do not divide, empty rows fill the last pass."""
        own = x.reshape(self.parts, -1, *x.shape[1:])
        rows = -(-own.shape[1] // self.count)
        fill = [(0, 0), (0, self.count * rows - own.shape[1]), *[(0, 0)] * (x.ndim - 1)]
        # Padding is segment 0, whatever its ids: it weighs nothing.
        cut = jnp.pad(own, fill).reshape(self.parts, self.count, rows, *x.shape[1:])
        return jnp.moveaxis(cut, 1, 0).reshape(self.count, self.parts * rows, *x.shape[1:])

    def _placed(self, total: tuple[Any, Any]) -> tuple[Any, Any]:
        grads, sums = total
        return (grads if self.shardings is None else jax.lax.with_sharding_constraint(grads, self.shardings)), sums


def make_passes(config: Config, devices: Devices, shardings: Any) -> Passes | None:
    """The passes of a config's steps, as few as max_tokens_per_device allows; None where one will do."""
    rows = config.rows_per_step // devices.num_row_parts
    most = config.parallel.max_tokens_per_device // config.data.target_length
    if not config.parallel.max_tokens_per_device or rows <= most:
        return None
    on_mesh = devices.strategy == 'mesh'
    return Passes(-(-rows // most), devices.parts_of_a_step, shardings if on_mesh else None)
