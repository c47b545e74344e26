"""GloVe: two words predict the logarithm of how often they occur together (Pennington et al. 2014).

Each word has two vectors, each with a bias in its last column; `glove_vectors` makes one of them.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from flax_transformer.engine.task import Params, Share, Sums
from flax_transformer.tasks.embeddings.config import EmbeddingsConfig
from flax_transformer.tasks.embeddings.cooccurrences import PAIR
from flax_transformer.tasks.embeddings.word2vec import rows_add, rows_of

_EXPONENT = 0.75  # of the weight (section 3.1)
_MEAN_EXPONENT = 0.75  # of a word's count, in the mean that is taken away
_SEGMENT = 64  # consecutive pairs on disk that are read together
CHUNK = 1 << 14  # segments of a chunk


class Pairs(NamedTuple):
    """Pairs of words; a pair that occurs 0 times weighs nothing. R rows, P pairs of a row."""

    first: np.ndarray  # [R, P] int32
    second: np.ndarray  # [R, P] int32
    count: np.ndarray  # [R, P] float32


class PairChunks:
    """The pairs of a file, in an order drawn anew for each epoch: segments of it, and then the pairs of a chunk."""

    def __init__(self, pairs: np.ndarray, *, block_size: int, segment: int = _SEGMENT, chunk: int = CHUNK) -> None:
        """`pairs` [n] of PAIR, sorted by words; it may be on disk."""
        self._pairs, self._size, self._segment, self._chunk = pairs, block_size, segment, chunk

    def __len__(self) -> int:
        return -(-len(self._pairs) // (self._segment * self._chunk))

    def __call__(self, chunk: int, generator: np.random.Generator) -> Pairs:
        """Every len(self)-th segment, from `chunk` on, with the pairs shuffled and cut into rows."""
        starts = np.arange(chunk, -(-len(self._pairs) // self._segment), len(self)) * self._segment
        places = (starts[:, None] + np.arange(self._segment)).ravel()
        found = self._pairs[places[places < len(self._pairs)]]
        rows = -(-len(found) // self._size)
        padded = np.zeros(rows * self._size, PAIR)
        padded[: len(found)] = found[generator.permutation(len(found))]
        return Pairs(*(np.ascontiguousarray(padded[name]).reshape(rows, self._size) for name in PAIR.names))


def init_glove(config: EmbeddingsConfig, key: jax.Array) -> Params:
    """Both vectors of each word and their biases, small at random."""
    shape = (2, config.vocab_size, config.d_model + 1)
    tables = jax.random.uniform(key, shape, minval=-0.5, maxval=0.5) / (config.d_model + 1)
    return {'input': tables[0], 'output': tables[1]}


def glove_vectors(params: Params, counts: np.ndarray) -> np.ndarray:
    """The vectors that are used, float32 [V, D]: the sum of each word's two (section 4.2), less their mean.

    The loss does not define a mean: if one vector is added to all of a table, the other table's biases make up for it.
    Left as training finds it, it says how frequent words are, and makes rare words alike. It is weighted by count^0.75.
    """
    shares = counts**_MEAN_EXPONENT
    shares = (shares / shares.sum()).astype(np.float32)
    summed = sum(np.asarray(params[name])[: len(counts), :-1] for name in ('input', 'output'))
    return summed - shares @ summed


def update_block(
    params: Params, squares: Params, pairs: Pairs, *, rate: jax.Array, x_max: float, share: Share
) -> tuple[Params, Params, Sums]:
    """Tables and AdaGrad's sums of squared gradients after the updates of a block [P], and its sums."""
    ids = jnp.concatenate([pairs.first, pairs.second])
    inputs, outputs = rows_of(params['input'], ids), rows_of(params['output'], ids)
    gradients, sums = _gradients(inputs, outputs, pairs, x_max)
    ids, gradients = share((ids, gradients))
    is_finite = jnp.isfinite(gradients['input']).all() & jnp.isfinite(gradients['output']).all()
    for name, gradient in gradients.items():
        gradient = jnp.where(is_finite, gradient, 0.0)
        # Added before they are read: if XLA could do it in either order, it would copy the whole table.
        squares = squares | {name: rows_add(squares[name], ids, gradient * gradient)}
        delta = -rate * gradient * jax.lax.rsqrt(rows_of(squares[name], ids))
        params = params | {name: rows_add(params[name], ids, delta)}
    return params, squares, sums


def sums_of_block(params: Params, pairs: Pairs, x_max: float) -> Sums:
    """The sums of a block."""
    ids = jnp.concatenate([pairs.first, pairs.second])
    return _gradients(rows_of(params['input'], ids), rows_of(params['output'], ids), pairs, x_max)[1]


def _gradients(inputs: jax.Array, outputs: jax.Array, pairs: Pairs, x_max: float) -> tuple[Params, Sums]:
    """The gradients of rows [2 P, D + 1] of both tables, and the sums (equation 8).

    Each pair counts in both orders: the input of one word with the output of the other.
    """
    size = len(pairs.first)
    swapped = jnp.concatenate([outputs[size:], outputs[:size]])
    scores = (inputs[:, :-1] * swapped[:, :-1]).sum(axis=1) + inputs[:, -1] + swapped[:, -1]
    count = jnp.concatenate([pairs.count, pairs.count])
    weight = jnp.minimum(count / x_max, 1.0) ** _EXPONENT
    difference = jnp.where(count > 0, scores - jnp.log(jnp.maximum(count, 1e-30)), 0.0)
    error = (weight * difference)[:, None]
    with_bias = lambda vectors: jnp.concatenate([vectors[:, :-1], jnp.ones_like(vectors[:, :1])], axis=1)
    of_swapped = error * with_bias(inputs)
    gradients = {
        'input': error * with_bias(swapped),
        'output': jnp.concatenate([of_swapped[size:], of_swapped[:size]]),
    }
    loss = 0.5 * (weight * difference * difference).sum()
    return gradients, {'loss': loss, 'pairs': (count > 0).sum().astype(jnp.float32)}
