"""Weights as decoding reads them: in the dtype of its products, and on CPUs transposed."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from flax_transformer.common.trees import path_name

from .int8 import Quantized, quantize, quantize_on_host, raised, with_matrices

_CACHE_LINE = 16  # numbers in float32
_MOST_ON_HOST = 1 << 23  # numbers of a matrix; XLA quantizes a larger one sooner, since it has all cores


class Transposed(NamedTuple):
    """A float32 weight [D, F], stored as [F, D], which XLA on CPUs multiplies few rows by faster (product.py).

    It takes the place of the array in a tree of parameters.
    """

    rows: jax.Array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.rows.shape[::-1]


def for_decoding(params: Any, dtype: str, *, frees: bool = False) -> Any:
    """The tree with each matrix that inputs are multiplied with in the form that is fastest for few rows.

    Args:
      dtype: of the products: float32, bfloat16, int8, or uint8, which is int8 with unsigned inputs. XLA for GPUs would
        round a float32 matrix for each token.
      frees: deletes each array once its replacement exists, so that a large model is never in memory twice.
    """
    is_transposed = dtype == 'float32' and jax.default_backend() == 'cpu'
    if dtype == 'float32' and not is_transposed:
        return params

    def quantized(matrix: Any, axis: int) -> Quantized:
        is_small = matrix.size < _MOST_ON_HOST
        return quantize_on_host(matrix, axis) if is_small and _is_in_one_place(matrix) else quantize(matrix, axis)

    def change(matrix: Any, axis: int) -> Any:
        if dtype == 'int8':
            weight = quantized(matrix, axis)
        elif dtype == 'uint8':
            weight = raised(quantized(matrix, axis), axis)
        elif not is_transposed:
            weight = jnp.asarray(matrix, dtype)
        elif axis == 0:
            weight = Transposed(_transposed(matrix))
        else:
            return matrix
        if frees and isinstance(matrix, jax.Array) and weight is not matrix:
            jax.block_until_ready(weight)
            matrix.delete()
        return weight

    return with_matrices(params, change)


def is_exact(weights: Any) -> bool:
    """Whether nothing was rounded."""
    return all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(weights))


def to_params(weights: Any) -> Any:
    """The parameters that `for_decoding` was given: its inverse, for exact weights."""
    return jax.tree.map(lambda x: x.rows.T if _is_transposed(x) else x, weights, is_leaf=_is_transposed)


def replaced(weights: Any, changed: dict[str, jax.Array]) -> Any:
    """Parameters or exact weights with other parameters in place of some, by name; the rest is shared."""

    def replace(path: Any, weight: Any) -> Any:
        new = changed.get(path_name(path))
        if new is None:
            return weight
        return Transposed(_transposed(new)) if _is_transposed(weight) else new

    return jax.tree_util.tree_map_with_path(replace, weights, is_leaf=_is_transposed)


def _transposed(matrix: jax.Array) -> jax.Array:
    """By NumPy: XLA would compile for each shape, which takes longer than to transpose a small model."""
    is_array = isinstance(matrix, jax.Array)
    if not _is_in_one_place(matrix):
        return jnp.transpose(matrix)
    read = np.asarray(matrix)
    written = np.empty(read.shape[::-1], read.dtype)
    for first in range(0, len(read), _CACHE_LINE):
        rows = slice(first, first + _CACHE_LINE)
        written[:, rows] = read[rows].T
    return jax.device_put(written, matrix.sharding if is_array and matrix.committed else None)


def _is_in_one_place(matrix: Any) -> bool:
    """Whether it is an array of NumPy or of one device."""
    if isinstance(matrix, jax.core.Tracer):
        return False
    return not isinstance(matrix, jax.Array) or len(matrix.devices()) == 1


def _is_transposed(x: Any) -> bool:
    return isinstance(x, Transposed)
