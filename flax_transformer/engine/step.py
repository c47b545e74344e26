"""One training step as a pure function, and one of an evaluation."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from flax_transformer.engine.accumulation import Passes
from flax_transformer.engine.freezing import keep_frozen
from flax_transformer.engine.state import TrainState
from flax_transformer.engine.task import Batch, Params, Sums

Loss = Callable[[Params, Batch, jax.Array | None], tuple[jax.Array, Sums]]  # `Task.loss`


def train_step(
    state: TrainState,
    batch: Batch,
    key: jax.Array,
    *,
    loss: Loss,
    weight: str,
    tx: optax.GradientTransformation,
    ema_decay: float = 0.0,
    is_frozen: Any = None,
    absorb: Callable[[Params, Any], Params] | None = None,
    passes: Passes | None = None,
    axis_name: str | None = None,
) -> tuple[TrainState, Sums]:
    """The state after one update, and metrics: the sums over the batch, `grad_norm`, and whether it was `skipped`.

    If the loss or the gradient norm is not finite, the update is skipped: parameters, moments, their counts (which
    drive the learning rate) and the moving average keep their bits. The step still advances, and with it the place in
    the data and the random numbers. Parameters that `is_frozen` (a tree of bools) marks keep their bits, too.
    `absorb` is `Task.absorb`.
    """
    grads, sums = gradients(state, batch, key, loss=loss, weight=weight, passes=passes, axis_name=axis_name)
    statistics = sums.pop('statistics', None)
    norm = optax.tree.norm(grads)
    is_finite = jnp.isfinite(norm) & jnp.isfinite(sums['loss'])
    updates, opt_state = tx.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    if statistics is not None and absorb is not None:
        params = absorb(params, statistics)
    step = state.step + 1
    ema = None if state.ema is None else _moving_average(state.ema, params, step, ema_decay)
    if is_frozen is not None:
        params = keep_frozen(state.params, params, is_frozen)
        ema = None if ema is None else keep_frozen(state.ema, ema, is_frozen)
    new = TrainState(step, params, opt_state, ema)
    # Elementwise rather than lax.cond: it fuses with the update and costs no extra pass over memory.
    state = jax.tree.map(lambda new, old: jnp.where(is_finite, new, old), new, state)._replace(step=step)
    return state, sums | {'grad_norm': norm, 'skipped': ~is_finite}


def gradients(
    state: TrainState,
    batch: Batch,
    key: jax.Array,
    *,
    loss: Loss,
    weight: str,
    passes: Passes | None = None,
    axis_name: str | None = None,
) -> tuple[Params, Sums]:
    """The gradients of the mean loss, and the sums over the batch.

    Losses and gradients are summed and divided once, by the sum named `weight` over all devices: a mean of means would
    weight a token by how many others share its device. So a batch can also be computed in several `passes`.
    """
    key = jax.random.fold_in(key, state.step)
    if axis_name:
        key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))

    def compute(batch: Batch, key: jax.Array) -> tuple[Params, Sums]:
        (total, sums), grads = jax.value_and_grad(loss, has_aux=True)(state.params, batch, key)
        if weight not in sums:
            raise ValueError(
                f'the loss returned the sums {", ".join(sums)}; expected {weight!r} among them (Task.counts)'
            )
        return grads, sums | {'loss': total}

    grads, sums = compute(batch, key) if passes is None else passes.add_up(compute, batch, key)
    if axis_name:
        grads, sums = jax.lax.psum((grads, sums), axis_name)
    return jax.tree.map(lambda g: g / jnp.maximum(sums[weight], 1.0), grads), sums


def _moving_average(ema: Params, params: Params, step: jax.Array, decay: float) -> Params:
    # Decays faster at first, or the random initial parameters would linger for thousands of steps.
    decay = jnp.minimum(decay, (1.0 + step) / (10.0 + step))
    return jax.tree.map(lambda old, new: decay * old + (1.0 - decay) * new, ema, params)


def eval_step(params: Params, batch: Batch, _: Any = None, *, loss: Loss, axis_name: str | None = None) -> Sums:
    """The sums over a batch, without dropout."""
    total, sums = loss(params, batch, None)
    sums = sums | {'loss': total}
    return jax.lax.psum(sums, axis_name) if axis_name else sums
