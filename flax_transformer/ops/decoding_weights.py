"""Weights as decoding reads them: in the dtype of its products, and on CPUs transposed."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .int8 import quantize, with_matrices


class Transposed(NamedTuple):
    """A float32 weight [D, F] that is kept as [F, D], by which XLA for CPUs multiplies few rows faster (product.py)."""

    rows: jax.Array


def for_decoding(params: Any, dtype: str, *, frees: bool = False) -> Any:
    """The tree with each matrix that inputs are multiplied with in the form that is fastest for few rows.

    Args:
      dtype: of the products: float32, bfloat16 or int8. XLA for GPUs would round matrices again for each token.
      frees: deletes each array that has another in its place, so that a large model is never in memory twice.
    """
    is_transposed = dtype == 'float32' and jax.default_backend() == 'cpu'
    if dtype == 'float32' and not is_transposed:
        return params

    def change(matrix: Any, axis: int) -> Any:
        if dtype == 'int8':
            weight = quantize(matrix, axis)
        elif not is_transposed:
            weight = jnp.asarray(matrix, dtype)
        elif axis == 0:
            weight = Transposed(jnp.transpose(matrix))
        else:
            return matrix
        if frees and isinstance(matrix, jax.Array):
            jax.block_until_ready(weight)
            matrix.delete()
        return weight

    return with_matrices(params, change)


def to_params(weights: Any) -> Any:
    """The parameters that `for_decoding` was given: its inverse, where nothing was rounded."""

    def is_transposed(x: Any) -> bool:
        return isinstance(x, Transposed)

    return jax.tree.map(lambda x: x.rows.T if is_transposed(x) else x, weights, is_leaf=is_transposed)
