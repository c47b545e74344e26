"""Weights in eight bits, for decoding: an integer for each weight, and a scale for each output feature.

Their inputs become integers when they are multiplied, with a scale for each row; products are summed exactly, in 32
bits (vector-wise quantization, Dettmers et al. 2022, section 3.1; symmetric, to the nearest). Nothing is calibrated.
An input that lies between two integers becomes the one or the other as its last bits happen to be, so that batches of
another shape may change a translation more easily than in float32.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

SCALE = '_scale'  # behind the name of a weight: its scales lie beside it in the tree
_SUMMED = {'kernel': 0, 'projection': 0, 'table': 1}  # the axis of D


def to_int8(params: Any) -> Any:
    """The tree with every matrix that is multiplied as int8 [D, F], `kernel_scale` [F] and the like beside it.

    Tables of embeddings [V, D] have a scale for each row. Biases, norms and positions stay as they are.
    """
    if isinstance(params, tuple):
        return tuple(map(to_int8, params))  # of an ensemble
    out = {}
    for name, value in params.items():
        if isinstance(value, Mapping):
            out[name] = value if name.endswith('_positions') else to_int8(value)
        elif name in _SUMMED:
            out[name], out[name + SCALE] = quantized(value, _SUMMED[name])
        else:
            out[name] = value
    return out


@jax.jit(static_argnames='axis')
def quantized(x: jax.Array, axis: int) -> tuple[jax.Array, jax.Array]:
    """Integers of -127 to 127 in the shape of x, and the scales along the other axes: their product is nearly x."""
    largest = jnp.abs(x.astype(jnp.float32)).max(axis=axis, keepdims=True)
    scale = jnp.where(largest == 0, 1.0, largest / 127)
    return jnp.round(x / scale).astype(jnp.int8), scale.squeeze(axis)


def product(x: jax.Array, weight: jax.Array, scale: jax.Array, axis: int = 0) -> jax.Array:
    """[..., F], float32, of x [..., D] times an int8 weight, whose `axis` is that of D."""
    rows = x.reshape(-1, x.shape[-1])
    # XLA has no fast product of a single row of integers on CPUs.
    is_single = isinstance(rows.shape[0], int) and rows.shape[0] == 1
    integers, of_rows = quantized(jnp.pad(rows, ((0, 1), (0, 0))) if is_single else rows, 1)
    sums = jax.lax.dot_general(integers, weight, (((1,), (axis,)), ((), ())), preferred_element_type=jnp.int32)
    products = sums.astype(jnp.float32) * of_rows[:, None] * scale[None]
    return (products[:1] if is_single else products).reshape(*x.shape[:-1], scale.size)
