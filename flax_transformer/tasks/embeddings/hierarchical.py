"""Skip-gram and CBOW with hierarchical softmax: the updates of a block of words (Mikolov et al. 2013b, equation 3).

A word is predicted as the branches of its path in a Huffman tree, by a vector for each inner node.

L words of a block, C with `window` more on either side, P inner nodes of the longest path, D d_model.
"""

import jax
import jax.numpy as jnp

from flax_transformer.engine.task import Params, Sums
from flax_transformer.tasks.embeddings.blocks import PathBlocks
from flax_transformer.tasks.embeddings.config import EmbeddingsConfig
from flax_transformer.tasks.embeddings.huffman import NO_NODE
from flax_transformer.tasks.embeddings.word2vec import (
    RowUpdate,
    Updates,
    finite,
    logistic,
    neighbors,
    rows_of,
    sums_of,
)


def skip_gram_tree(
    params: Params, block: PathBlocks, rate: jax.Array, config: EmbeddingsConfig
) -> tuple[Updates, Sums]:
    """The updates in which the neighbors of each word of the block predict its path, and the sums."""
    size = len(block.left)
    # Each word's neighbors by their distance, so that only they are multiplied.
    offsets = [offset for offset in range(2 * config.window + 1) if offset != config.window]
    places = jnp.arange(size)[:, None] + jnp.array(offsets)[None, :]
    is_neighbor = jnp.take_along_axis(neighbors(block, config.window), places, axis=1)  # [L, 2 * window]
    inputs, outputs = rows_of(params['input'], block.words), rows_of(params['output'], block.nodes)
    around = inputs[places]
    weights = (block.signs != NO_NODE).astype(jnp.float32)[:, :, None] * is_neighbor[:, None, :]
    gradient, loss = logistic(jnp.einsum('LPD,LWD->LPW', outputs, around), block.signs[:, :, None], weights)
    of_around = jnp.einsum('LPW,LPD->LWD', gradient, outputs)
    of_inputs = jnp.zeros_like(inputs)
    for number, offset in enumerate(offsets):
        of_inputs = of_inputs.at[offset : offset + size].add(of_around[:, number])
    of_outputs = jnp.einsum('LPW,LWD->LPD', gradient, around)
    return _updates(block, rate * of_inputs, rate * of_outputs, loss), sums_of(loss, is_neighbor, is_neighbor.sum())


def cbow_tree(params: Params, block: PathBlocks, rate: jax.Array, config: EmbeddingsConfig) -> tuple[Updates, Sums]:
    """The updates in which the mean of its neighbors predicts the path of each word, and the sums."""
    is_neighbor = neighbors(block, config.window)
    pairs = is_neighbor.sum(axis=1)
    has_any = jnp.minimum(pairs, 1.0)
    inputs, outputs = rows_of(params['input'], block.words), rows_of(params['output'], block.nodes)
    means = is_neighbor @ inputs / jnp.maximum(pairs, 1.0)[:, None]
    weights = (block.signs != NO_NODE) * has_any[:, None]
    gradient, loss = logistic(jnp.einsum('LPD,LD->LP', outputs, means), block.signs, weights)
    of_inputs = is_neighbor.T @ jnp.einsum('LP,LPD->LD', gradient, outputs)
    of_outputs = gradient[:, :, None] * means[:, None, :]
    return _updates(block, rate * of_inputs, rate * of_outputs, loss), sums_of(loss, is_neighbor, has_any.sum())


def _updates(block: PathBlocks, of_inputs: jax.Array, of_outputs: jax.Array, loss: jax.Array) -> Updates:
    of_nodes = RowUpdate(block.nodes.reshape(-1), of_outputs.reshape(-1, of_outputs.shape[-1]))
    return finite({'input': RowUpdate(block.words, of_inputs), 'output': of_nodes}, loss)
