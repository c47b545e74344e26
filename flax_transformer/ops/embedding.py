"""Embeddings (Vaswani et al. 2017, section 3.4). Shapes: D d_model, V vocabulary."""

import flax.linen as nn
import jax
import jax.numpy as jnp

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
        """Vectors [..., D] of ids [...]. pad_id, from which the decoder starts, is the zero vector unless pad_row is
        'both'."""
        vectors = look_up(self.table, tokens, self.dtype)
        if self.scale:
            vectors = vectors * jnp.asarray(self.d_model**0.5, self.dtype)
        return vectors if self.pad_row == 'both' else jnp.where((tokens == self.pad_id)[..., None], 0, vectors)

    def logits(self, x: jax.Array) -> jax.Array:
        """Logits [..., V], float32, of x [..., D]: products with every row of the table."""
        logits = product(x, self.table, axis=1, dtype=jnp.float32)
        return logits.at[..., self.pad_id].set(0.0) if self.pad_row == 'neither' else logits
