"""Learning rates by step. The first update has step 1."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

Schedule = Callable[[jax.Array], jax.Array]


def noam(d_model: int, warmup_steps: int, factor: float = 1.0) -> Schedule:
    """factor * d_model^-0.5 * min(step^-0.5, step * warmup^-1.5) (Vaswani et al. 2017, section 5.3, eq. 3)."""

    def rate(step: jax.Array) -> jax.Array:
        step = jnp.asarray(step, jnp.float32)
        return factor * d_model**-0.5 * jnp.minimum(step**-0.5, step * warmup_steps**-1.5)

    return rate


def inverse_sqrt(peak: float, warmup_steps: int) -> Schedule:
    """Rises to `peak` at step warmup_steps, then falls with 1 / sqrt(step): noam, given by its peak."""
    return noam(1, warmup_steps, peak * warmup_steps**0.5)


def _with_warmup(peak: float, warmup_steps: int, after: Callable[[jax.Array], jax.Array]) -> Schedule:
    def rate(step: jax.Array) -> jax.Array:
        step = jnp.asarray(step, jnp.float32)
        return peak * jnp.where(step < warmup_steps, step / max(warmup_steps, 1), after(step))

    return rate


def constant(peak: float, warmup_steps: int) -> Schedule:
    """Rises to `peak` at step warmup_steps and stays there."""
    return _with_warmup(peak, warmup_steps, jnp.ones_like)


def linear(peak: float, warmup_steps: int, steps: int) -> Schedule:
    """Rises to `peak` at step warmup_steps, then falls linearly to 0 at `steps`."""
    return _with_warmup(peak, warmup_steps, lambda step: 1.0 - _progress(step, warmup_steps, steps))


def cosine(peak: float, warmup_steps: int, steps: int) -> Schedule:
    """Rises to `peak` at step warmup_steps, then falls along half a cosine to 0 at `steps`."""
    return _with_warmup(
        peak, warmup_steps, lambda step: 0.5 + 0.5 * jnp.cos(jnp.pi * _progress(step, warmup_steps, steps))
    )


def _progress(step: jax.Array, warmup_steps: int, steps: int) -> jax.Array:
    return jnp.clip((step - warmup_steps) / max(steps - warmup_steps, 1), 0.0, 1.0)
