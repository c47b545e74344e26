"""Embeddings of source and target, and logits, which may share a table (Vaswani et al. 2017, section 3.4).

Shapes: D d_model, V vocabulary.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from .parameter import parameter
from .product import look_up, product


class Embedding(nn.Module):
    """A table [V, D] that embeds tokens and, if tied, gives logits."""

    vocab_size: int
    d_model: int
    pad_id: int
    scale: bool = True
    pad_row: str = 'output'  # what reads pad_id's row: output (only the logits), neither or both
    dtype: jnp.dtype = jnp.float32

    def setup(self) -> None:
        shape = (self.vocab_size, self.d_model)
        self.table = parameter(self, 'table', nn.initializers.normal(self.d_model**-0.5), shape, jnp.float32)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        """Vectors [..., D] of ids [...]; pad_id, from which the decoder starts, is zero unless pad_row is 'both'."""
        vectors = look_up(self.table, tokens, self.dtype)
        if self.scale:
            vectors = vectors * jnp.asarray(self.d_model**0.5, self.dtype)
        if self.pad_row == 'both':
            return vectors
        return jnp.where((tokens == self.pad_id)[..., None], 0, vectors)

    def logits(self, x: jax.Array) -> jax.Array:
        """Logits [..., V], float32, of x [..., D]."""
        logits = product(x, self.table, axis=1, dtype=jnp.float32)
        if self.pad_row == 'neither':
            return logits.at[..., self.pad_id].set(0.0)
        return logits


class Embeddings(nn.Module):
    """The tables of source and target, and the logits, which share as many of them as `config.tie_embeddings` says.

    A model shares its scope with this module (`nn.share_scope`), so that the parameters are the model's own.
    """

    config: Any
    scale: bool = True
    pad_row: str = 'output'
    dtype: jnp.dtype = jnp.float32

    def setup(self) -> None:
        config = self.config
        target_size = config.vocab_size_of_target
        if config.tie_embeddings in ('all', 'sides'):
            self.embedding = self._table(config.vocab_size)
            self.source_embedding = self.target_embedding = self.embedding
        else:
            self.source_embedding = self._table(config.vocab_size)
            self.target_embedding = self._table(target_size)

        if config.tie_embeddings in ('sides', 'none'):
            shape = (config.d_model, target_size)
            self.projection = parameter(self, 'projection', nn.initializers.glorot_uniform(), shape, jnp.float32)

        if config.logits_bias:
            self.bias = parameter(self, 'logits_bias', nn.initializers.zeros, (target_size,), jnp.float32)

    def _table(self, vocab_size: int) -> Embedding:
        return Embedding(vocab_size, self.config.d_model, self.config.pad_id, self.scale, self.pad_row, self.dtype)

    def source(self, tokens: jax.Array) -> jax.Array:
        return self.source_embedding(tokens)

    def target(self, tokens: jax.Array) -> jax.Array:
        return self.target_embedding(tokens)

    def logits(self, x: jax.Array) -> jax.Array:
        """Logits [..., V], float32, of hidden states [..., D], by the parameters in `output_names`."""
        if self.config.tie_embeddings in ('sides', 'none'):
            logits = product(x, self.projection, dtype=jnp.float32)
        else:
            logits = self.target_embedding.logits(x)
        if self.config.logits_bias:
            logits = logits + jnp.expand_dims(self.bias, range(logits.ndim - 1))
        return logits


def output_names(config: Any) -> tuple[str, ...]:
    """Top-level names of the parameters that turn hidden states into logits."""
    table = {'all': 'embedding', 'target': 'target_embedding'}.get(config.tie_embeddings, 'projection')
    return (table, 'logits_bias') if config.logits_bias else (table,)


def piece_axis(name: str) -> int:
    """The axis of the pieces in parameters with this top-level name."""
    return 1 if name == 'projection' else 0


def with_piece_multiple(config: Any, multiple: int) -> Any:
    """The config with more pieces on the target side, up to a multiple."""
    more = -config.vocab_size_of_target % multiple
    if not more:
        return config
    size = 'vocab_size' if config.target_vocab_size is None else 'target_vocab_size'
    return replace(config, **{size: config.vocab_size_of_target + more})


def padded_output(config: Any, params: Any, num_pieces: int) -> Any:
    """The parameters in `output_names`, with zeros for the pieces that the vocabulary lacks."""
    output = {name: params[name] for name in output_names(config)}
    more = num_pieces - config.vocab_size_of_target
    if not more:
        return output

    def padded(x: jax.Array, axis: int) -> jax.Array:
        widths = [(0, 0)] * x.ndim
        widths[axis] = (0, more)
        return jnp.pad(x, widths)

    return {name: jax.tree.map(partial(padded, axis=piece_axis(name)), tree) for name, tree in output.items()}
