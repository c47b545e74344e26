"""What surrounds attention: positions, the feed-forward network, residual connections.

Vaswani et al. 2017, sections 3.1, 3.3 and 3.5. Shapes: B batch, T positions, D d_model, F d_ff.
"""

from collections.abc import Callable, Sequence
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from flax_transformer.ops.dense import Dense
from flax_transformer.ops.dropout import Dropout
from flax_transformer.ops.product import add_to_rows, look_up

from .config import TransformerConfig
from .norms import make_norm

Sublayer = Callable[[jax.Array], jax.Array]  # [B, T, D] -> [B, T, D]

ACTIVATIONS = {'relu': nn.relu, 'gelu': partial(nn.gelu, approximate=False), 'swish': nn.swish}


def sinusoids(length: int, d_model: int, layout: str = 'interleaved') -> np.ndarray:
    """A table of positions [T, D], float32 (section 3.5).

    `interleaved`: sin(t / 10000^(2i/D)) at 2i, cos of the same at 2i + 1: the paper.
    `concatenated`: the same sines in the first half, cosines in the second: Marian in Hugging Face.
    `tensor2tensor`: halves too, but with the exponent i / (D/2 - 1): the paper's code, and fairseq.

    >>> [round(float(x), 3) for x in sinusoids(2, 4)[1]]
    [0.841, 0.54, 0.01, 1.0]
    """
    half = d_model // 2
    denominator = max(half - 1, 1) if layout == 'tensor2tensor' else half
    exponent = np.arange(half) / denominator
    angles = np.arange(length)[:, None] / 10_000.0 ** exponent[None, :]
    waves = np.stack([np.sin(angles), np.cos(angles)], axis=-1)  # [T, D / 2, 2]
    if layout != 'interleaved':
        waves = waves.swapaxes(1, 2)
    return waves.reshape(length, d_model).astype(np.float32)


class Positions(nn.Module):
    """Adds position vectors to embeddings: a fixed table of sinusoids or a learned one (section 3.5)."""

    d_model: int
    layout: str = 'interleaved'  # one of those of `sinusoids`, or 'learned'
    max_length: int = 256  # rows of a learned table
    dtype: jnp.dtype = jnp.float32
    offset: int = 0  # the row of a fixed table that the first position reads

    @classmethod
    def of(cls, config: TransformerConfig) -> 'Positions':
        dtype = jnp.dtype(config.dtype)
        return cls(config.d_model, config.positions, config.max_length, dtype, config.position_offset)

    @nn.compact
    def __call__(self, x: jax.Array, positions: jax.Array, length: int) -> jax.Array:
        """x [B, T, D] plus the vectors of `positions` (integers below `length`, broadcast to [B, T])."""
        if self.layout == 'learned':
            if length > self.max_length:
                raise ValueError(f'length {length}: the learned table has max_length={self.max_length} positions')
            init = nn.initializers.normal(self.d_model**-0.5)
            table = self.param('table', init, (self.max_length, self.d_model), jnp.float32)
        else:
            rows = sinusoids(self.offset + length, self.d_model, self.layout)
            table = jnp.asarray(rows[self.offset :])
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
    def __call__(self, x: jax.Array, sublayer: Sublayer, *, deterministic: bool = True) -> jax.Array:
        """x [B, T, D] after the sublayer."""
        norm = make_norm(self.norm, self.epsilon, self.dtype, name='norm')
        dropout = partial(Dropout(self.dropout_rate), deterministic=deterministic)
        if self.norm_first:
            return x + dropout(sublayer(norm(x)))
        return norm(x + dropout(sublayer(x)))


def run_layers(
    layers: Sequence[nn.Module], x: jax.Array, *inputs: jax.Array | None, remat: bool, deterministic: bool
) -> jax.Array:
    """x [B, T, D] after all layers; with `remat` each keeps only its inputs for the backward pass."""

    def run(layer: nn.Module, x: jax.Array, *inputs: jax.Array | None) -> jax.Array:
        return layer(x, *inputs, deterministic=deterministic)

    if remat:
        run = nn.remat(run)
    for layer in layers:
        x = run(layer, x, *inputs)
    return x


def final_norm(config: TransformerConfig) -> nn.Module | None:
    """The norm after a pre-LN stack, whose last sum is not normalized yet; None for post-LN."""
    if not config.norm_first:
        return None
    return make_norm(config.norm, config.norm_epsilon, jnp.dtype(config.dtype))
