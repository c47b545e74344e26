"""Which words are nearest: compiled functions over the whole vocabulary.

Shapes: V words, D width of a vector, Q queries, P words that count for and M words that count against, E excluded ids.
"""

from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

Method = Literal['add', 'mul']
EPSILON = 1e-6  # of 3CosMul's denominator (Levy and Goldberg 2014, section 5)


def normalized(matrix: np.ndarray) -> np.ndarray:
    """The rows of a matrix [V, D] at length 1, float32; a row of zeros stays one."""
    matrix = np.asarray(matrix, np.float64)  # a square may be beyond float32
    lengths = np.sqrt((matrix**2).sum(axis=-1, keepdims=True))
    return (matrix / np.where(lengths == 0, 1, lengths)).astype(np.float32)


@partial(jax.jit, static_argnames='count')
def nearest_by_sum(
    units: jax.Array, queries: jax.Array, excluded: jax.Array, among: int, *, count: int
) -> tuple[jax.Array, jax.Array]:
    """The `count` words of highest cosine with each query, 3CosAdd if it is a sum: cosines and ids [Q, count].

    Args:
      units: [V, D], rows of length 1.
      queries: [Q, D], of any length.
      excluded: [Q, E] ids that are no answer; V for none.
      among: only the first so many words are answers.
    """
    lengths = jnp.linalg.norm(queries, axis=1, keepdims=True)
    queries = queries / jnp.where(lengths == 0, 1, lengths)
    return _best(_cosines(queries, units), excluded, among, count)


@partial(jax.jit, static_argnames='count')
def nearest_by_product(
    units: jax.Array, plus: jax.Array, minus: jax.Array, excluded: jax.Array, among: int, *, count: int
) -> tuple[jax.Array, jax.Array]:
    """The words of the highest product of cosines with `plus`, divided by that with `minus`: 3CosMul.

    Cosines are moved to 0 ... 1 (Levy and Goldberg 2014, section 5 and footnote 7).

    Args:
      plus: [Q, P, D], rows of length 1.
      minus: [Q, M, D], likewise.
      others: as `nearest_by_sum`.
    """
    above, below = ((1 + _cosines(vectors, units)) / 2 for vectors in (plus, minus))
    return _best(above.prod(axis=1) / (below.prod(axis=1) + EPSILON), excluded, among, count)


def _cosines(vectors: jax.Array, units: jax.Array) -> jax.Array:
    return jnp.einsum('...D,VD->...V', vectors, units, precision='highest')


def _best(scores: jax.Array, excluded: jax.Array, among: int, count: int) -> tuple[jax.Array, jax.Array]:
    """The highest scores and their ids, [Q, count], of scores [Q, V]."""
    scores = jnp.where(jnp.arange(scores.shape[1])[None] < among, scores, -jnp.inf)
    rows = jnp.arange(len(scores))[:, None]
    scores = scores.at[rows, excluded].set(-jnp.inf, mode='drop')
    if count == 1:  # much faster than top_k
        ids = scores.argmax(axis=1)[:, None]
        return jnp.take_along_axis(scores, ids, axis=1), ids
    return jax.lax.top_k(scores, count)
