"""OptimizerConfig -> optax."""

import jax
import optax

from flax_transformer import schedules
from flax_transformer.config import OptimizerConfig


def make_schedule(config: OptimizerConfig, *, d_model: int, steps: int) -> schedules.Schedule:
    """The learning rate by step, counted from 1. d_model scales noam; steps is where linear and cosine end."""
    if config.schedule == 'noam':
        return schedules.noam(d_model, config.warmup_steps, config.learning_rate)
    if config.schedule == 'inverse_sqrt':
        return schedules.inverse_sqrt(config.learning_rate, config.warmup_steps)
    if config.schedule == 'constant':
        return schedules.constant(config.learning_rate, config.warmup_steps)
    make = schedules.linear if config.schedule == 'linear' else schedules.cosine
    return make(config.learning_rate, config.warmup_steps, steps)


def make_optimizer(config: OptimizerConfig, *, d_model: int, steps: int) -> optax.GradientTransformation:
    """The gradient transformation of the config (Vaswani et al. 2017, section 5.3)."""
    schedule = make_schedule(config, d_model=d_model, steps=steps)
    rate = lambda count: schedule(count + 1)  # optax counts from 0, the paper from 1
    betas = {'b1': config.beta1, 'b2': config.beta2}
    decay = {'weight_decay': config.weight_decay, 'mask': _matrices}
    if config.name == 'adam':
        update = optax.adam(rate, **betas, eps=config.epsilon)
    elif config.name == 'adamw':
        update = optax.adamw(rate, **betas, eps=config.epsilon, **decay)
    elif config.name == 'lion':
        update = optax.lion(rate, **betas, **decay)
    else:
        update = optax.adafactor(rate)
    return optax.chain(optax.clip_by_global_norm(config.clip_norm), update) if config.clip_norm else update


def _matrices(params):
    """Which parameters decay: matrices, not biases and norms."""
    return jax.tree.map(lambda x: x.ndim >= 2, params)
