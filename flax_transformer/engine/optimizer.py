"""How gradients become updates, and the learning rate by step."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
import optax.contrib

from .config import OptimizerConfig

Schedule = Callable[[jax.Array], jax.Array]


def noam(d_model: int, warmup_steps: int, factor: float = 1.0) -> Schedule:
    """factor * d_model^-0.5 * min(step^-0.5, step * warmup^-1.5) (Vaswani et al. 2017, section 5.3, eq. 3)."""

    def rate(step: jax.Array) -> jax.Array:
        step = jnp.asarray(step, jnp.float32)
        return factor * d_model**-0.5 * jnp.minimum(step**-0.5, step * warmup_steps**-1.5)

    return rate


# What follows the warm-up, as a share of the peak, by the share of the steps after it that are done.
_AFTER_WARMUP = {
    'constant': jnp.ones_like,
    'linear': lambda done: 1.0 - done,
    'cosine': lambda done: 0.5 + 0.5 * jnp.cos(jnp.pi * done),
}


def make_schedule(config: OptimizerConfig, *, d_model: int, steps: Any, is_fitted: bool = False) -> Schedule:
    """The learning rate by step, counted from 1. `d_model` scales noam; linear and cosine reach 0 at `steps`.

    inverse_sqrt is noam, given by its peak; the others rise in a line to theirs, at step warmup_steps. If the steps,
    which may be traced, are fitted to epochs or minutes, it rises for at most a tenth of them.
    """
    peak = config.learning_rate
    warmup = config.warmup_steps
    if is_fitted:
        warmup = jnp.minimum(warmup, jnp.maximum(steps // 10, 1))
    end = config.schedule_steps or steps
    if config.schedule == 'noam':
        return noam(d_model, warmup, peak)
    if config.schedule == 'inverse_sqrt':
        return noam(1, warmup, peak * warmup**0.5)

    def rate(step: jax.Array) -> jax.Array:
        step = jnp.asarray(step, jnp.float32)
        done = jnp.clip((step - warmup) / jnp.maximum(end - warmup, 1), 0.0, 1.0)
        return peak * jnp.where(step < warmup, step / jnp.maximum(warmup, 1), _AFTER_WARMUP[config.schedule](done))

    return rate


def make_optimizer(
    config: OptimizerConfig, schedule: Schedule, *, is_frozen: Any = None
) -> optax.GradientTransformation:
    """The gradient transformation of the config (Vaswani et al. 2017, section 5.3), with its `make_schedule`.

    Parameters that `is_frozen` (a tree of bools) marks have no moments and do not count in the norm that is clipped.
    """

    def rate(count: jax.Array) -> jax.Array:
        return schedule(count + 1)  # optax counts from 0, the paper from 1

    betas = {'b1': config.beta1, 'b2': config.beta2}
    decay = {'weight_decay': config.weight_decay, 'mask': _is_matrix}
    adamw = optax.adamw(rate, **betas, eps=config.epsilon, **decay)
    if config.name == 'adam':
        update = optax.adam(rate, **betas, eps=config.epsilon)
    elif config.name == 'adamw':
        update = adamw
    elif config.name == 'lion':
        update = optax.lion(rate, **betas, **decay)
    elif config.name == 'muon':
        # Its author recommends Muon for matrices within the layers, Adam for embeddings and the output table. Updates
        # are scaled to the size of Adam's (Liu et al. 2025, eq. 4), so that Adam's learning rate suits both.
        settings = {'beta': config.beta1, 'consistent_rms': 0.2, 'weight_decay': config.weight_decay}
        update = optax.multi_transform({'muon': optax.contrib.muon(rate, **settings), 'adam': adamw}, _muon_or_adam)
    else:
        update = optax.adafactor(rate)
    if config.clip_norm:
        update = optax.chain(optax.clip_by_global_norm(config.clip_norm), update)
    if is_frozen is not None:
        labels = jax.tree.map(lambda frozen: 'frozen' if frozen else 'trained', is_frozen)
        update = optax.multi_transform({'trained': update, 'frozen': optax.set_to_zero()}, labels)
    return update


def _is_matrix(params: Any) -> Any:
    """True for what weight decay applies to: not biases, not norms."""
    return jax.tree.map(lambda x: x.ndim >= 2, params)


def _muon_or_adam(params: Any) -> Any:
    """Muon for the matrices within the layers; Adam for the rest, such as convolutions and the output layer."""

    def label(path: Any, x: Any) -> str:
        is_within = path[-1].key == 'kernel' and path[0].key != 'output'
        return 'muon' if is_within and x.ndim == 2 else 'adam'

    return jax.tree_util.tree_map_with_path(label, params)
