"""One training step, a pure function; and the sums of an evaluation."""

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
    passes: Passes | None = None,
    axis_name: str | None = None,
) -> tuple[TrainState, Sums]:
    """One update, and its metrics: the sums over the batch, `grad_norm`, and whether it was `skipped`.

    If the loss or the norm of the gradients is not finite, the update is skipped: parameters, moments, their counts
    (which drive the learning rate) and the moving average keep their bits. The step still advances, and with it the
    place in the data and the random numbers. Frozen parameters (a tree of bools) keep their bits, too.
    """
    grads, sums = gradients(state, batch, key, loss=loss, weight=weight, passes=passes, axis_name=axis_name)
    norm = optax.tree.norm(grads)
    is_finite = jnp.isfinite(norm) & jnp.isfinite(sums['loss'])
    updates, opt_state = tx.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    step = state.step + 1
    ema = None if state.ema is None else _moving_average(state.ema, params, step, ema_decay)
    if is_frozen is not None:
        params = keep_frozen(state.params, params, is_frozen)
        ema = None if ema is None else keep_frozen(state.ema, ema, is_frozen)
    new = TrainState(step, params, opt_state, ema)
    # Elementwise, not lax.cond: it fuses with the update's own loops and costs no extra pass over memory.
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
    """The gradients of the mean loss, shaped like the parameters, and the sums over the batch.

    Losses and gradients are summed and divided once, by the sum named `weight` over all devices: a mean of means would
    weight a token by how many others share its device. So a batch may also be computed in `passes`.
    """
    key = jax.random.fold_in(key, state.step)
    if axis_name:
        key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))

    def compute(batch: Batch, key: jax.Array) -> tuple[Params, Sums]:
        (total, sums), grads = jax.value_and_grad(loss, has_aux=True)(state.params, batch, key)
        return grads, sums | {'loss': total}

    grads, sums = compute(batch, key) if passes is None else passes.add_up(compute, batch, key)
    if axis_name:
        grads, sums = jax.lax.psum((grads, sums), axis_name)
    return jax.tree.map(lambda g: g / jnp.maximum(sums[weight], 1.0), grads), sums


def _moving_average(ema: Params, params: Params, step: jax.Array, decay: float) -> Params:
    # The average starts short, or the random first parameters would stay in it for thousands of steps.
    decay = jnp.minimum(decay, (1.0 + step) / (10.0 + step))
    return jax.tree.map(lambda old, new: decay * old + (1.0 - decay) * new, ema, params)


def eval_step(params: Params, batch: Batch, _: Any = None, *, loss: Loss, axis_name: str | None = None) -> Sums:
    """The sums over a batch, without dropout."""
    total, sums = loss(params, batch, None)
    sums = sums | {'loss': total}
    return jax.lax.psum(sums, axis_name) if axis_name else sums
