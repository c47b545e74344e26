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

ACTIVATIONS = {'relu': nn.relu, 'gelu': partial(nn.gelu, approximate=False), 'gelu_tanh': nn.gelu, 'swish': nn.swish}
BUCKETS = 32  # of distances, each with a bias for each head
FARTHEST = 128  # positions: from there on, distances have one bucket


def sinusoids(length: int, d_model: int, layout: str = 'interleaved') -> np.ndarray:
    """A table of positions [T, D], float32 (section 3.5).

    `interleaved`: sin(t / 10000^(2i/D)) at 2i, cos of the same at 2i + 1: the paper.
    `concatenated`: sines in the first half, cosines in the second: Marian in Hugging Face.
    `tensor2tensor`: halves too, with the exponent i / (D/2 - 1): the paper's code, and fairseq.

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

    def biased(self, mask: jax.Array, queries: jax.Array, keys: jax.Array) -> jax.Array:
        """The mask of self-attention, as it is."""
        return mask


def bucket_of(distance: jax.Array, *, is_causal: bool) -> jax.Array:
    """The bucket of how far a key comes before its query (Raffel et al. 2020, section 2.1).

    Half are for keys that come after, unless `is_causal`. Half of a direction's have one distance each, the others
    ranges that grow exponentially, up to FARTHEST.

    >>> bucket_of(jnp.array([0, 1, 16, 31, 32, 500, -1]), is_causal=False).tolist()
    [0, 1, 10, 11, 12, 15, 17]
    """
    buckets = BUCKETS if is_causal else BUCKETS // 2
    exact = buckets // 2
    distances = np.arange(FARTHEST)
    share = np.log2(np.maximum(distances, exact) / exact) / np.log2(FARTHEST / exact)
    table = jnp.asarray(np.minimum(distances, exact) + (share * (buckets - exact)).astype(int))
    bucket = table[jnp.minimum(jnp.abs(distance), FARTHEST - 1)]
    return bucket if is_causal else jnp.where(distance < 0, bucket + buckets, bucket)


class RelativePositions(nn.Module):
    """A bias on the scores of all layers, by head and `bucket_of` the distance (Raffel et al. 2020, section 2.1)."""

    num_heads: int
    is_causal: bool

    def __call__(self, x: jax.Array, positions: jax.Array, length: int) -> jax.Array:
        return x

    @nn.compact
    def biased(self, mask: jax.Array, queries: jax.Array, keys: jax.Array) -> jax.Array:
        """A boolean mask as what is added to scores, float32 [B, H, T, S]; positions are [B, T] and [B, S]."""
        table = self.param('table', nn.initializers.normal(0.02), (BUCKETS, self.num_heads), jnp.float32)
        distance = queries[:, :, None] - keys[:, None, :]
        bias = look_up(table, bucket_of(distance, is_causal=self.is_causal), jnp.float32)
        return jnp.where(mask, jnp.moveaxis(bias, 3, 1), jnp.finfo(jnp.float32).min)


class FeedForward(nn.Module):
    """activation(x W1 + b1) W2 + b2, the same at each position (section 3.3, eq. 2)."""

    config: TransformerConfig

    @nn.compact
    def __call__(self, x: jax.Array, *, deterministic: bool = True) -> jax.Array:
        config = self.config
        dense = partial(Dense, dtype=jnp.dtype(config.dtype), use_bias=config.feed_forward_bias)
        hidden = dense(config.d_model, config.d_ff, name='inner')(x)
        hidden = ACTIVATIONS[config.activation](hidden)
        if config.gated:
            hidden = hidden * dense(config.d_model, config.d_ff, name='gate')(x)
        hidden = Dropout(config.activation_dropout_rate)(hidden, deterministic=deterministic)
        return dense(config.d_ff, config.d_model, name='outer')(hidden)


class Residual(nn.Module):
    """LayerNorm(x + Dropout(sublayer(x))), or with norm_first x + Dropout(sublayer(LayerNorm(x))) (section 3.1)."""

    config: TransformerConfig

    @nn.compact
    def __call__(self, x: jax.Array, sublayer: Sublayer, *, deterministic: bool = True) -> jax.Array:
        norm = make_norm(self.config, name='norm')
        dropout = partial(Dropout(self.config.dropout_rate), deterministic=deterministic)
        if self.config.norm_first:
            return x + dropout(sublayer(norm(x)))
        return norm(x + dropout(sublayer(x)))


def run_layers(
    layers: Sequence[nn.Module], x: jax.Array, *inputs: jax.Array | None, remat: bool, deterministic: bool
) -> jax.Array:
    """x [B, T, D] after all layers; with `remat` each keeps only its inputs."""

    def run(layer: nn.Module, x: jax.Array, *inputs: jax.Array | None) -> jax.Array:
        return layer(x, *inputs, deterministic=deterministic)

    if remat:
        run = nn.remat(run)
    for layer in layers:
        x = run(layer, x, *inputs)
    return x
