"""Embeddings of source and target, and logits, which may share a table (Vaswani et al. 2017, section 3.4).

Shapes: B batch, T target tokens, D d_model, V vocabulary, N = B * beams.
"""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from flax_transformer.common.trees import DecodeState
from flax_transformer.ops.product import look_up, product


class Embedding(nn.Module):
    """A table [V, D] that embeds tokens and, if tied, gives logits (section 3.4)."""

    vocab_size: int
    d_model: int
    pad_id: int
    scale: bool = True
    pad_row: str = 'output'  # what reads pad_id's row: output (only the logits), neither or both
    dtype: jnp.dtype = jnp.float32

    def setup(self) -> None:
        shape = (self.vocab_size, self.d_model)
        self.table = self.param('table', nn.initializers.normal(self.d_model**-0.5), shape, jnp.float32)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        """Vectors [..., D] of ids [...].

        pad_id, from which the decoder starts, is the zero vector unless pad_row is 'both'.
        """
        vectors = look_up(self.table, tokens, self.dtype)
        if self.scale:
            vectors = vectors * jnp.asarray(self.d_model**0.5, self.dtype)
        return vectors if self.pad_row == 'both' else jnp.where((tokens == self.pad_id)[..., None], 0, vectors)

    def logits(self, x: jax.Array) -> jax.Array:
        """Logits [..., V], float32, of x [..., D]: products with every row of the table."""
        logits = product(x, self.table, axis=1, dtype=jnp.float32)
        return logits.at[..., self.pad_id].set(0.0) if self.pad_row == 'neither' else logits


def output_names(config: Any) -> tuple[str, ...]:
    """Top-level names of the parameters that turn hidden states into logits."""
    table = {'all': 'embedding', 'target': 'target_embedding', 'none': 'projection'}[config.tie_embeddings]
    return (table, 'logits_bias') if config.logits_bias else (table,)


class TiedEmbeddings(nn.Module):
    """The base of translation models, which add `hidden`, `start` and `decode_with_attention`.

    Their config has tie_embeddings, logits_bias, d_model, vocab_size and vocab_size_of_target.
    """

    config: Any
    remat: bool = False  # keep only each layer's input for the backward pass and recompute the rest: less memory

    supports_int8 = True  # parameters may be `Quantized`

    def __call__(self, source: jax.Array, target_in: jax.Array, **keywords: Any) -> jax.Array:
        """Returns logits [B, T, V], float32, from what `hidden` takes."""
        return self.project(self.hidden(source, target_in, **keywords))

    def decode(self, tokens: jax.Array, state: DecodeState) -> tuple[jax.Array, DecodeState]:
        """Returns logits [N, V] of the token after `tokens` [N], and the next state; N is a multiple of B."""
        logits, _, state = self.decode_with_attention(tokens, state)
        return logits, state

    def set_up_embeddings(self, embedding: Callable[[int], Embedding]) -> None:
        """To be called by `setup`; `embedding` makes a table of as many tokens."""
        config = self.config
        if config.tie_embeddings == 'all':
            self.embedding = embedding(config.vocab_size)
        else:
            self.source_embedding = embedding(config.vocab_size)
            self.target_embedding = embedding(config.vocab_size_of_target)
        if config.tie_embeddings == 'none':
            shape = (config.d_model, config.vocab_size_of_target)
            self.projection = self.param('projection', nn.initializers.glorot_uniform(), shape, jnp.float32)
        if config.logits_bias:
            self.bias = self.param('logits_bias', nn.initializers.zeros, (config.vocab_size_of_target,), jnp.float32)

    def embedding_of(self, side: str) -> Embedding:
        """The table of 'source' or 'target'."""
        return self.embedding if self.config.tie_embeddings == 'all' else getattr(self, f'{side}_embedding')

    def project(self, x: jax.Array) -> jax.Array:
        """Logits [..., V], float32, of hidden states [..., D]; reads only the parameters in `output_names`."""
        if self.config.tie_embeddings == 'none':
            logits = product(x, self.projection, dtype=jnp.float32)
        else:
            logits = self.embedding_of('target').logits(x)
        return logits + jnp.expand_dims(self.bias, range(logits.ndim - 1)) if self.config.logits_bias else logits
