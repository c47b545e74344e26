"""A tiny translation model with its loss, and a batch whose rows are very uneven."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flax_transformer.config import TransformerConfig
from flax_transformer.data.bitext.batches import Batch, make_batch
from flax_transformer.data.bitext.packing import one_pair_a_row
from flax_transformer.data.bitext.tokenized import flatten, offsets
from flax_transformer.tasks.translation.task import loss_sums
from flax_transformer.transformer.model import Transformer, parameter_shapes

MODEL = TransformerConfig(
    vocab_size=30, d_model=16, num_heads=2, d_ff=32, num_encoder_layers=1, num_decoder_layers=1, dropout_rate=0.0
)
LOSS = partial(loss_sums, model=Transformer(MODEL), label_smoothing=0.1)


def drawn(shapes: Any, seed: int = 3) -> Any:
    """Values for a tree of shapes, about as large as a model's first ones: `init_params` takes a second to compile."""
    rng = np.random.default_rng(seed)

    def draw(path: Any, leaf: Any) -> jax.Array:
        values = rng.normal(size=leaf.shape) * (leaf.shape[0] ** -0.5 if leaf.ndim > 1 else 0.1)
        return jnp.asarray(values + (path[-1].key in ('scale', 'variance')), jnp.float32)

    return jax.tree_util.tree_map_with_path(draw, shapes)


def fresh_params() -> Any:
    """Those that the tests with MODEL share."""
    return drawn(parameter_shapes(MODEL))


def uneven_batch(rows: int = 8, slots: int = 12) -> Batch:
    """Rows with very different numbers of tokens; two of them empty."""
    rng = np.random.default_rng(0)
    sentences = [[*rng.integers(3, 30, n), 1] for n in (1, 9, 3, 2, 5, 4, 10, 1)]
    rows_of = [[0], [1], [2, 3], [], [4], [5, 7], [6], []]
    assert len(rows_of) == rows
    order = [i for row in rows_of for i in row]
    side = flatten([sentences[i] for i in order])
    pairs = one_pair_a_row(side, side, np.zeros(len(order), int), np.array(order))
    return make_batch(pairs._replace(bounds=offsets(np.array([len(row) for row in rows_of]))), slots, slots, 0)
