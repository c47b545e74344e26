"""What keeps a translation in eight bits from depending on the shape of its batch, on CPUs (decoding.weights `auto`).

Products of integers are exact. But an input that is halfway between two integers is rounded by its last bits, and XLA
for CPUs chooses by shapes in which order it adds floats, and whose exponential it takes. Within `batch_invariance`,
norms and attention are traced in forms that have one order and one exponential. XLA does not promise that they have:
benchmarks/invariance.py measures it, and `is_measured` says where it found so. (With JAX 0.12 they have not.)
"""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

import jax
import jax.numpy as jnp
import jaxlib

from flax_transformer.common.compilation_cache import processor_features

# Numbers of columns with which products have one order, whatever the number of rows: these, and multiples of the most.
_LEAST_COLUMNS, _MOST_COLUMNS = 32, 64
_LEAST_ROWS = 2
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


def is_measured() -> bool:
    """Whether no bit was found to differ with this version of XLA on this kind of processor."""
    return jaxlib.__version__.startswith('0.10.') and 'avx512_vnni' in processor_features().split()


def is_batch_invariant() -> bool:
    return _is_wanted.get()


def row_sums(x: jax.Array) -> jax.Array:
    """Sums [..., 1] over the last axis of x."""
    *outer, width = x.shape
    rows = x.reshape(-1, width)
    count = len(rows)
    rows = jnp.pad(rows, ((0, max(_LEAST_ROWS - count, 0)), (0, 0)))
    sums = rows @ jnp.ones((width, _ONES), x.dtype)
    return sums[:count, :1].reshape(*outer, 1)


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


def columns_for(slots: int) -> int:
    """How many columns of a product hold so many slots."""
    return max(slots, _LEAST_COLUMNS) if slots <= _MOST_COLUMNS else -(-slots // _MOST_COLUMNS) * _MOST_COLUMNS


def widened(x: jax.Array, axis: int) -> jax.Array:
    """Keys or values with zeros along the axis of slots, as columns of a product."""
    slots = x.shape[axis]
    return jnp.pad(x, [(0, columns_for(slots) - slots if i == axis else 0) for i in range(x.ndim)])
