"""What surrounds attention: positions, the feed-forward network, residual connections.

Vaswani et al. 2017, sections 3.1, 3.3 and 3.5. Shapes: B batch, T positions, D d_model, F d_ff.
"""

from collections.abc import Callable
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from flax_transformer.ops.dense import Dense
from flax_transformer.ops.dropout import Dropout
from flax_transformer.ops.product import add_to_rows, look_up
from flax_transformer.transformer.config import TransformerConfig
from flax_transformer.transformer.norms import make_norm

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    'relu': nn.relu,
    'gelu': lambda x: nn.gelu(x, approximate=False),
    'swish': nn.swish,
}


def sinusoids(length: int, d_model: int, layout: str = 'interleaved') -> np.ndarray:
    """Returns a position table [T, D], float32 (section 3.5).

    `interleaved`: sin(t / 10000^(2i/D)) at 2i, cos of the same at 2i + 1: the paper.
    `concatenated`: the same sines in the first half, cosines in the second: Marian in Hugging Face.
    `tensor2tensor`: halves too, but with the exponent i / (D/2 - 1): the paper's code, and fairseq.

    >>> [round(float(x), 3) for x in sinusoids(2, 4)[1]]
    [0.841, 0.54, 0.01, 1.0]
    """
    half = d_model // 2
    exponent = np.arange(half) / (max(half - 1, 1) if layout == 'tensor2tensor' else half)
    angles = np.arange(length)[:, None] / 10_000.0 ** exponent[None, :]
    if layout == 'interleaved':
        table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, d_model)
    elif layout in ('concatenated', 'tensor2tensor'):
        table = np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)
    else:
        raise ValueError(f'layout={layout!r}: expected interleaved, concatenated or tensor2tensor')
    return table.astype(np.float32)


class Positions(nn.Module):
    """Adds position vectors to embeddings: a fixed table of sinusoids or a learned one (section 3.5)."""

    d_model: int
    layout: str = 'interleaved'  # one of those of `sinusoids`, or 'learned'
    max_length: int = 256  # rows of a learned table
    dtype: jnp.dtype = jnp.float32
    offset: int = 0  # the row of a fixed table that the first position reads

    @nn.compact
    def __call__(self, x: jax.Array, positions: jax.Array, length: int) -> jax.Array:
        """Returns x [B, T, D] plus the vectors of `positions` (integers below `length`, broadcast to [B, T])."""
        if self.layout == 'learned':
            if length > self.max_length:
                raise ValueError(f'length {length}: the learned table has max_length={self.max_length} positions')
            init = nn.initializers.normal(self.d_model**-0.5)
            table = self.param('table', init, (self.max_length, self.d_model), jnp.float32)
        else:
            table = jnp.asarray(sinusoids(self.offset + length, self.d_model, self.layout)[self.offset :])
        return add_to_rows(x, look_up(table, positions, jnp.float32))


class FeedForward(nn.Module):
    """activation(x W1 + b1) W2 + b2, the same at each position (section 3.3, eq. 2)."""

    d_model: int
    d_ff: int
    activation: str = 'relu'
    dropout_rate: float = 0.0  # drops activations; 0 in the published model
    dtype: jnp.dtype = jnp.float32

    @classmethod
    def of(cls, config: TransformerConfig) -> 'FeedForward':
        rate = config.activation_dropout_rate
        return cls(config.d_model, config.d_ff, config.activation, rate, jnp.dtype(config.dtype))

    @nn.compact
    def __call__(self, x: jax.Array, *, deterministic: bool = True) -> jax.Array:
        hidden = Dense(self.d_model, self.d_ff, dtype=self.dtype, name='inner')(x)
        hidden = ACTIVATIONS[self.activation](hidden)
        hidden = Dropout(self.dropout_rate)(hidden, deterministic=deterministic)
        return Dense(self.d_ff, self.d_model, dtype=self.dtype, name='outer')(hidden)


def final_norm(config: TransformerConfig) -> nn.Module | None:
    """Returns the norm after a pre-LN stack, whose last sum is not normalized yet; None for post-LN."""
    return make_norm(config.norm, config.norm_epsilon, jnp.dtype(config.dtype)) if config.norm_first else None


class Residual(nn.Module):
    """LayerNorm(x + Dropout(sublayer(x))), or with norm_first x + Dropout(sublayer(LayerNorm(x))) (section 3.1)."""

    dropout_rate: float = 0.1
    norm_first: bool = False
    epsilon: float = 1e-6
    dtype: jnp.dtype = jnp.float32
    norm: str = 'layer'  # its name in `TransformerConfig.norm`

    @classmethod
    def of(cls, config: TransformerConfig) -> 'Residual':
        return cls(config.dropout_rate, config.norm_first, config.norm_epsilon, jnp.dtype(config.dtype), config.norm)

    @nn.compact
    def __call__(
        self, x: jax.Array, sublayer: Callable[[jax.Array], jax.Array], *, deterministic: bool = True
    ) -> jax.Array:
        """Returns x [B, T, D] after the sublayer."""
        norm = make_norm(self.norm, self.epsilon, self.dtype, name='norm')
        dropout = partial(Dropout(self.dropout_rate), deterministic=deterministic)
        return x + dropout(sublayer(norm(x))) if self.norm_first else norm(x + dropout(sublayer(x)))
