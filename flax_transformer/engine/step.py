"""One training step, and one of an evaluation, as pure functions."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from flax_transformer.common.errors import UserError
from flax_transformer.common.trees import named_leaves

from .devices.devices import Devices
from .losses import cut
from .task import Batch, Params, Sums, Task, TrainState


def frozen_by(patterns: Sequence[str], params: Any) -> Any:
    """A tree of bools like `params`: whether some pattern matches the parameter's whole path.

    Raises UserError, which lists all paths, if a pattern matches none or if everything is frozen.
    """
    paths = [path for path, _ in named_leaves(params)]
    matches = {pattern: [re.fullmatch(pattern, path) is not None for path in paths] for pattern in patterns}
    unmatched = [repr(pattern) for pattern in patterns if not any(matches[pattern])]
    is_frozen = [any(column) for column in zip(*matches.values(), strict=True)]
    if unmatched or all(is_frozen):
        problem = f'{", ".join(unmatched)} matches no parameter' if unmatched else 'nothing is left to be trained'
        raise UserError('\n  '.join([f'optimizer.freeze: {problem}. There are', *paths]))
    return jax.tree.unflatten(jax.tree.structure(params), is_frozen)


def stop_gradients(params: Any, is_frozen: Any) -> Any:
    return jax.tree.map(lambda frozen, x: jax.lax.stop_gradient(x) if frozen else x, is_frozen, params)


class Passes(NamedTuple):
    """How a step cuts the rows of its batch into passes."""

    count: int
    parts: int  # devices among which the step's rows are split, in order: each takes part in every pass
    shardings: Any  # how the sum of gradients, carried from pass to pass, is sharded; None: XLA decides

    def add_up(self, compute: Callable[[Any, jax.Array], Any], batch: Any, key: jax.Array) -> Any:
        """The sum over passes of `compute(batch, key)`, which returns gradients and sums."""
        passes = jax.tree.map(self._cut, batch)

        def add(total: Any, numbered: tuple[jax.Array, Any]) -> tuple[Any, None]:
            number, rows = numbered
            total = jax.tree.map(jnp.add, total, compute(rows, jax.random.fold_in(key, number)))
            return self._sharded(total), None

        first = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), passes)
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(compute, first, key))
        return jax.lax.scan(add, self._sharded(zeros), (jnp.arange(self.count), passes))[0]

    def _cut(self, x: jax.Array) -> jax.Array:
        """[rows, ...] as [passes, rows of a pass, ...]; rows of zeros, which weigh nothing, pad the last pass."""
        passes = cut(x.reshape(self.parts, -1, *x.shape[1:]), self.count)  # [passes, parts, rows, ...]
        return passes.reshape(self.count, -1, *x.shape[1:])

    def _sharded(self, total: tuple[Any, Any]) -> tuple[Any, Any]:
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


Loss = Callable[[Params, Batch, jax.Array | None], tuple[jax.Array, Sums]]  # `Task.loss`


def train_step(
    state: TrainState,
    batch: Batch,
    key: jax.Array,
    *,
    tx: optax.GradientTransformation,
    ema_decay: float = 0.0,
    is_frozen: Any = None,
    **how: Any,
) -> tuple[TrainState, Sums]:
    """The state after one update, and metrics: the sums over the batch, `grad_norm`, and whether it was `skipped`.

    If the loss or the gradient norm is not finite, the update is skipped: parameters, moments, their counts (which
    drive the learning rate) and the moving average keep their bits. The step still advances, and with it the position
    in the data and the random numbers. Parameters that `is_frozen` (a tree of bools) marks keep their bits, too.
    `how` are the options of `gradients`.
    """
    grads, sums = gradients(state, batch, key, **how)
    norm = optax.tree.norm(grads)
    is_finite = jnp.isfinite(norm) & jnp.isfinite(sums['loss'])
    updates, opt_state = tx.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    step = state.step + 1
    ema = None if state.ema is None else _moving_average(state.ema, params, step, ema_decay)
    if is_frozen is not None:
        # Adding zeros, or averaging equal numbers, may change bits.
        keep = partial(jax.tree.map, lambda is_frozen, old, new: old if is_frozen else new, is_frozen)
        params = keep(state.params, params)
        ema = None if ema is None else keep(state.ema, ema)
    new = TrainState(step, params, opt_state, ema)
    # Elementwise rather than lax.cond: it fuses with the update and costs no extra pass over memory.
    state = jax.tree.map(lambda new, old: jnp.where(is_finite, new, old), new, state)._replace(step=step)
    return state, sums | {'grad_norm': norm, 'skipped': ~is_finite}


def key_of_step(key: jax.Array, state: TrainState, axis_name: str | None) -> jax.Array:
    """A key for the step after a state, another on each device of an axis."""
    key = jax.random.fold_in(key, state.step)
    return jax.random.fold_in(key, jax.lax.axis_index(axis_name)) if axis_name else key


def gradients(
    state: TrainState,
    batch: Batch,
    key: jax.Array,
    *,
    loss: Loss,
    weight: str,
    passes: Passes | None = None,
    sum_in: str = 'float32',
    axis_name: str | None = None,
) -> tuple[Params, Sums]:
    """The gradients of the mean loss, and the sums over the batch.

    Losses and gradients are summed and divided once, by the sum named `weight` over all devices: a mean of means would
    weight a token by how many others share its device. So a batch can also be computed in several `passes`. Devices sum
    their gradients in the dtype `sum_in`.
    """
    key = key_of_step(key, state, axis_name)

    def compute(batch: Batch, key: jax.Array) -> tuple[Params, Sums]:
        (total, sums), grads = jax.value_and_grad(loss, has_aux=True)(state.params, batch, key)
        if weight not in sums:
            raise ValueError(
                f'the loss returned the sums {", ".join(sums)}; expected {weight!r} among them (Task.counts)'
            )
        return grads, sums | {'loss': total}

    grads, sums = compute(batch, key) if passes is None else passes.add_up(compute, batch, key)
    if axis_name:
        rounded = jax.tree.map(lambda g: g.astype(sum_in), grads)
        grads, sums = jax.lax.psum((rounded, sums), axis_name)
    return jax.tree.map(lambda g: g.astype(jnp.float32) / jnp.maximum(sums[weight], 1.0), grads), sums


def _moving_average(ema: Params, params: Params, step: jax.Array, decay: float) -> Params:
    # Decays faster at first, or the random initial parameters would linger for thousands of steps.
    decay = jnp.minimum(decay, (1.0 + step) / (10.0 + step))
    return jax.tree.map(lambda old, new: decay * old + (1.0 - decay) * new, ema, params)


def eval_step(params: Params, batch: Batch, _: Any = None, *, loss: Loss, axis_name: str | None = None) -> Sums:
    """The sums over a batch, without dropout."""
    total, sums = loss(params, batch, None)
    sums = sums | {'loss': total}
    return jax.lax.psum(sums, axis_name) if axis_name else sums
