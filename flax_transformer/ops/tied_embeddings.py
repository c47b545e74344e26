"""Embeddings of source and target, and logits, which may share one matrix (Vaswani et al. 2017, section 3.4)."""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from flax_transformer.ops.embedding import Embedding
from flax_transformer.ops.product import product


def output_names(config: Any) -> tuple[str, ...]:
    """Top-level names of the parameters that turn hidden states into logits."""
    table = {'all': 'embedding', 'target': 'target_embedding', 'none': 'projection'}[config.tie_embeddings]
    return (table, 'logits_bias') if config.logits_bias else (table,)


class TiedEmbeddings:
    """A second base, with nn.Module, of translation models.

    Their config has tie_embeddings, logits_bias, d_model, vocab_size and vocab_size_of_target.
    """

    config: Any

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
