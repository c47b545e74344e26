"""What keeps a translation in eight bits from depending on the shape of its batch, on CPUs.

Products of integers are exact. But an input that is halfway between two integers is rounded by its last bits, and XLA
for CPUs chooses by shapes in which order it adds floats, and whose exponential it takes. Within `batch_invariance`,
norms and attention are traced in forms that have one order and one exponential. XLA does not promise that they have;
benchmarks/invariance.py measures it.
"""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

import jax
import jax.numpy as jnp

# A product has another order with at most 16 columns, or so few terms that XLA's library does not take it.
LEAST_COLUMNS = 32
_LEAST_ROWS = 16
_ONES = 8  # columns of the product that adds up rows: with one, the order depends on the number of rows
_LEAST_EXPONENT = -100.0  # its exponential is below all that changes a sum of at least 1

_is_wanted: ContextVar[bool] = ContextVar('batch invariance', default=False)


@contextlib.contextmanager
def batch_invariance(is_wanted: bool) -> Iterator[None]:
    """Within, what is traced for CPUs is invariant."""
    before = _is_wanted.set(is_wanted and jax.default_backend() == 'cpu')
    try:
        yield
    finally:
        _is_wanted.reset(before)


def is_batch_invariant() -> bool:
    return _is_wanted.get()


def row_sums(x: jax.Array) -> jax.Array:
    """Sums [..., 1] over the last axis of x."""
    *outer, width = x.shape
    rows = x.reshape(-1, width)
    more = max(_LEAST_ROWS - len(rows), 0), max(LEAST_COLUMNS - width, 0)
    rows = jnp.pad(rows, [(0, added) for added in more])
    sums = rows @ jnp.ones((rows.shape[1], _ONES), x.dtype)
    return sums[: len(rows) - more[0], :1].reshape(*outer, 1)


def exponentials(scores: jax.Array) -> jax.Array:
    """exp(scores - their largest) over the last axis."""
    # The limits keep XLA from handing maximum, difference and exponential to its library, as it does for many rows.
    return jnp.exp(jnp.clip(scores - scores.max(axis=-1, keepdims=True), _LEAST_EXPONENT, 0.0))


def normalized(x: jax.Array, scale: jax.Array, bias: jax.Array | None, epsilon: float) -> jax.Array:
    """Layer norm over the last axis of x, float32; without a bias [D], RMS norm."""
    x = x.astype(jnp.float32)
    if bias is not None:
        x -= row_sums(x) / x.shape[-1]
    x *= jax.lax.rsqrt(row_sums(x * x) / x.shape[-1] + epsilon)
    x *= jnp.broadcast_to(scale, x.shape)
    return x if bias is None else x + jnp.broadcast_to(bias, x.shape)


def widened(x: jax.Array, axis: int) -> jax.Array:
    """x with zeros up to LEAST_COLUMNS along an axis."""
    return jnp.pad(x, [(0, max(LEAST_COLUMNS - size, 0) if i == axis else 0) for i, size in enumerate(x.shape)])
