"""Skip-gram and CBOW: the updates of a block of words (Mikolov et al. 2013b).

word2vec updates after every pair. A block's updates are computed from the same vectors, as matrix products.

With negative sampling (equation 4) a block's words share their negatives: N words stand for the `negatives` that each
pair would draw, with the weight negatives / N. With hierarchical softmax (equation 3) a word is predicted as the
branches of its path in a Huffman tree, by a vector for each inner node. As in word2vec's code, the sigmoid of a score
outside of +-MAX_SCORE is 0 or 1, but in a tree such a score changes nothing. Each way of predicting gives the updates
of a block, and its sums.

L words of a block, C with `window` more on either side, N negatives, P inner nodes of the longest path, D d_model.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from flax_transformer.engine.task import Params, Sums

from .blocks import NO_NODE, Blocks, PathBlocks
from .config import EmbeddingsModelConfig

MAX_SCORE = 6.0


class RowUpdate(NamedTuple):
    """What is added to rows of a table; a row that is named twice gets both."""

    ids: jax.Array  # [n] int32
    delta: jax.Array  # [n, D]


Updates = dict[str, RowUpdate]  # keyed by table


def init_tables(config: EmbeddingsModelConfig, key: jax.Array) -> Params:
    """The vectors of words, small at random, and those that predict, zero."""
    shape = (config.vocab_size, config.d_model)
    return {
        'input': jax.random.uniform(key, shape, jnp.float32, minval=-0.5, maxval=0.5) / config.d_model,
        'output': jnp.zeros(shape, jnp.float32),
    }


def apply_updates(params: Params, updates: Updates) -> Params:
    """The tables with the updates added to their rows, in place where they are donated."""
    added = {name: rows_add(params[name], *update) for name, update in updates.items()}
    return params | added


def rows_of(table: jax.Array, ids: jax.Array) -> jax.Array:
    return table.at[ids].get(mode='promise_in_bounds')


def rows_add(table: jax.Array, ids: jax.Array, delta: jax.Array) -> jax.Array:
    return table.at[ids].add(delta, mode='promise_in_bounds')


def neighbors(block: Blocks, window: int) -> jax.Array:
    """[L, C] float32: 1 where the word of the column is a neighbor of the block's word of the row.

    Window 1, the words `a [b c] d`, each with a neighbor on both sides:

        b  1 0 1 0
        c  0 1 0 1
    """
    size = block.left.shape[0]
    distance = jnp.arange(size + 2 * window)[None, :] - window - jnp.arange(size)[:, None]
    is_left = (distance < 0) & (-distance <= block.left[:, None])
    is_right = (distance > 0) & (distance <= block.right[:, None])
    return (is_left | is_right).astype(jnp.float32)


def skip_gram(params: Params, block: Blocks, rate: jax.Array, config: EmbeddingsModelConfig) -> tuple[Updates, Sums]:
    """Each word of the block predicts its neighbors."""
    size = block.left.shape[0]
    is_neighbor = neighbors(block, config.window)
    pairs = is_neighbor.sum(axis=1)

    words = block.words[config.window : config.window + size]
    predicted = jnp.concatenate([block.words, block.negatives])
    inputs = rows_of(params['input'], words)
    outputs = rows_of(params['output'], predicted)

    shared = config.negatives / len(block.negatives)
    negative_weights = jnp.broadcast_to(shared * pairs[:, None], (size, len(block.negatives)))
    weights = jnp.concatenate([is_neighbor, negative_weights], axis=1)
    is_true = (jnp.arange(len(predicted)) < len(block.words)).astype(jnp.float32)
    gradient, loss = logistic(inputs @ outputs.T, is_true[None, :], weights)
    updates = {
        'input': RowUpdate(words, rate * (gradient @ outputs)),
        'output': RowUpdate(predicted, rate * (gradient.T @ inputs)),
    }
    return finite(updates, loss), sums_of(loss, is_neighbor, pairs.sum())


def cbow(params: Params, block: Blocks, rate: jax.Array, config: EmbeddingsModelConfig) -> tuple[Updates, Sums]:
    """The mean of its neighbors predicts each word of the block."""
    size = block.left.shape[0]
    is_neighbor = neighbors(block, config.window)
    pairs = is_neighbor.sum(axis=1)
    has_any = jnp.minimum(pairs, 1.0)

    words = block.words[config.window : config.window + size]
    predicted = jnp.concatenate([words, block.negatives])
    inputs = rows_of(params['input'], block.words)
    outputs = rows_of(params['output'], predicted)
    means = is_neighbor @ inputs / jnp.maximum(pairs, 1.0)[:, None]

    true, false = outputs[:size], outputs[size:]
    grad_true, loss_true = logistic((means * true).sum(axis=1), 1.0, has_any)
    weights = jnp.broadcast_to(has_any[:, None] * (config.negatives / len(block.negatives)), (size, len(false)))
    grad_false, loss_false = logistic(means @ false.T, 0.0, weights)
    grad_means = grad_true[:, None] * true + grad_false @ false
    grad_outputs = jnp.concatenate([grad_true[:, None] * means, grad_false.T @ means])

    # Each neighbor gets, as in word2vec's code, the whole gradient of the mean, not its share.
    updates = {
        'input': RowUpdate(block.words, rate * (is_neighbor.T @ grad_means)),
        'output': RowUpdate(predicted, rate * grad_outputs),
    }
    loss = loss_true + loss_false
    return finite(updates, loss), sums_of(loss, is_neighbor, has_any.sum())


def logistic(scores: jax.Array, is_true: Any, weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The weighted gradient of the log likelihood by the scores, and the negative log likelihood."""
    is_far = jnp.abs(scores) > MAX_SCORE
    gradient = weights * (is_true - jnp.where(is_far, scores > 0, jax.nn.sigmoid(scores)))
    loss = (weights * (jax.nn.softplus(scores) - is_true * scores)).sum()
    return gradient, loss


def tree_logistic(scores: jax.Array, is_true: Any, weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    """As `logistic`, without a gradient where the score is outside of +-MAX_SCORE."""
    gradient, loss = logistic(scores, is_true, weights)
    return jnp.where(jnp.abs(scores) < MAX_SCORE, gradient, 0.0), loss


def sums_of(loss: jax.Array, is_neighbor: jax.Array, predictions: jax.Array) -> Sums:
    """The sums of a block: its loss, the words with a neighbor, and what was predicted."""
    words = is_neighbor.max(axis=1).sum()
    return {'loss': loss, 'words': words, 'predictions': predictions}


def finite(updates: Updates, loss: jax.Array) -> Updates:
    """The updates, or zeros where the loss is not finite."""
    return {name: RowUpdate(ids, jnp.where(jnp.isfinite(loss), delta, 0.0)) for name, (ids, delta) in updates.items()}


def skip_gram_tree(
    params: Params, block: PathBlocks, rate: jax.Array, config: EmbeddingsModelConfig
) -> tuple[Updates, Sums]:
    """The neighbors of each word of the block predict its path."""
    size = len(block.left)
    # Each word's neighbors by their distance, so that only they are multiplied.
    offsets = [offset for offset in range(2 * config.window + 1) if offset != config.window]
    columns = jnp.arange(size)[:, None] + jnp.array(offsets)[None, :]
    is_neighbor = jnp.take_along_axis(neighbors(block, config.window), columns, axis=1)  # [L, 2 * window]

    inputs = rows_of(params['input'], block.words)
    outputs = rows_of(params['output'], block.nodes)
    around = inputs[columns]
    weights = (block.signs != NO_NODE).astype(jnp.float32)[:, :, None] * is_neighbor[:, None, :]
    scores = jnp.einsum('LPD,LWD->LPW', outputs, around)
    gradient, loss = tree_logistic(scores, block.signs[:, :, None], weights)

    grad_around = jnp.einsum('LPW,LPD->LWD', gradient, outputs)
    grad_inputs = jnp.zeros_like(inputs)
    for number, offset in enumerate(offsets):
        grad_inputs = grad_inputs.at[offset : offset + size].add(grad_around[:, number])
    grad_outputs = jnp.einsum('LPW,LWD->LPD', gradient, around)
    updates = _tree_updates(block, rate * grad_inputs, rate * grad_outputs, loss)
    return updates, sums_of(loss, is_neighbor, is_neighbor.sum())


def cbow_tree(
    params: Params, block: PathBlocks, rate: jax.Array, config: EmbeddingsModelConfig
) -> tuple[Updates, Sums]:
    """The mean of its neighbors predicts the path of each word."""
    is_neighbor = neighbors(block, config.window)
    pairs = is_neighbor.sum(axis=1)
    has_any = jnp.minimum(pairs, 1.0)

    inputs = rows_of(params['input'], block.words)
    outputs = rows_of(params['output'], block.nodes)
    means = is_neighbor @ inputs / jnp.maximum(pairs, 1.0)[:, None]
    weights = (block.signs != NO_NODE) * has_any[:, None]
    gradient, loss = tree_logistic(jnp.einsum('LPD,LD->LP', outputs, means), block.signs, weights)

    grad_inputs = is_neighbor.T @ jnp.einsum('LP,LPD->LD', gradient, outputs)
    grad_outputs = gradient[:, :, None] * means[:, None, :]
    updates = _tree_updates(block, rate * grad_inputs, rate * grad_outputs, loss)
    return updates, sums_of(loss, is_neighbor, has_any.sum())


def _tree_updates(block: PathBlocks, inputs: jax.Array, outputs: jax.Array, loss: jax.Array) -> Updates:
    nodes = RowUpdate(block.nodes.reshape(-1), outputs.reshape(-1, outputs.shape[-1]))
    return finite({'input': RowUpdate(block.words, inputs), 'output': nodes}, loss)
