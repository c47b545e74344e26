"""Encoders that several tasks share; their configs name their fields alike.

Called inside a module's `__call__`, each adds its parameters to that module. Shapes: B rows, T positions, D width.
"""

from typing import Any

import jax
import jax.numpy as jnp

from flax_transformer.rnn.layers import BidirectionalLayer
from flax_transformer.transformer.config import TransformerConfig
from flax_transformer.transformer.encoder import Encoder
from flax_transformer.transformer.layers import Positions


def recurrent_layer(config: Any, number: int, x: jax.Array, mask: jax.Array) -> jax.Array:
    """[B, T, 2 * hidden_size]: layer `number`, in both directions, over x where `mask`."""
    layer = BidirectionalLayer(x.shape[-1], config.hidden_size, config.cell, x.dtype, name=f'layers_{number}')
    return layer(x, mask.astype(jnp.int32))


def with_positions(x: jax.Array) -> jax.Array:
    _, length, width = x.shape
    return Positions(width, dtype=x.dtype)(x, jnp.arange(length)[None], length)


def transformer_encoder(
    config: Any, x: jax.Array, mask: jax.Array, *, deterministic: bool, **rates: float
) -> jax.Array:
    """[B, T, D]: the Transformer's encoder, pre-LN, over x where `mask`."""
    same = {name: getattr(config, name) for name in ('vocab_size', 'd_model', 'num_heads', 'd_ff', 'dtype')}
    encoder = Encoder(TransformerConfig(**same, num_encoder_layers=config.num_layers, norm_first=True, **rates))
    return encoder(x, mask[:, None, None, :], deterministic=deterministic)
