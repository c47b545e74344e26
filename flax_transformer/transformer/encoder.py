"""The encoder: a stack of self-attention and feed-forward layers (Vaswani et al. 2017, section 3.1, figure 1 left)."""

from typing import Any

import flax.linen as nn
import jax

from flax_transformer.transformer.attention import MultiHeadAttention
from flax_transformer.transformer.config import TransformerConfig
from flax_transformer.transformer.layers import FeedForward, Residual, final_norm
from flax_transformer.transformer.norms import normalize

# What batch norms saw in training: `BatchSums` by the names of parameters, None elsewhere.
Statistics = dict[str, Any]


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each with its residual connection and norm."""

    config: TransformerConfig

    def setup(self) -> None:
        norm = self.config.norm_of_encoder
        self.self_attention = MultiHeadAttention.of(self.config)
        self.self_residual = Residual.of(self.config, norm)
        self.feed_forward = FeedForward.of(self.config)
        self.feed_forward_residual = Residual.of(self.config, norm)

    def __call__(
        self, x: jax.Array, mask: jax.Array | None, segments: jax.Array | None = None, *, deterministic: bool = True
    ) -> tuple[jax.Array, Statistics]:
        def attend(x: jax.Array) -> jax.Array:
            return self.self_attention(x, x, mask, deterministic=deterministic)

        def transform(x: jax.Array) -> jax.Array:
            return self.feed_forward(x, deterministic=deterministic)

        x, first = self.self_residual.with_statistics(x, attend, segments, deterministic=deterministic)
        x, second = self.feed_forward_residual.with_statistics(x, transform, segments, deterministic=deterministic)
        return x, {'self_residual': {'norm': first}, 'feed_forward_residual': {'norm': second}}


class Encoder(nn.Module):
    """Memory [B, S, D] of embedded source x [B, S, D] under a mask that broadcasts to [B, H, S, S].

    Also the statistics that batch norms saw in training. `segments` [B, S] number the sentences of a row from 1, 0 for
    padding: needed by batch and instance norm only.
    """

    config: TransformerConfig
    remat: bool = False

    def setup(self) -> None:
        self.layers = [EncoderLayer(self.config) for _ in range(self.config.num_encoder_layers)]
        self.final_norm = final_norm(self.config, self.config.norm_of_encoder)

    def __call__(
        self, x: jax.Array, mask: jax.Array | None, segments: jax.Array | None = None, *, deterministic: bool = True
    ) -> tuple[jax.Array, Statistics]:
        def run(layer: EncoderLayer, x: jax.Array, *rest: jax.Array | None) -> tuple[jax.Array, Statistics]:
            return layer(x, *rest, deterministic=deterministic)

        seen = {}
        for number, layer in enumerate(self.layers):
            x, seen[f'layers_{number}'] = (nn.remat(run) if self.remat else run)(layer, x, mask, segments)
        if self.final_norm is not None:
            x, seen['final_norm'] = normalize(self.final_norm, x, segments, deterministic=deterministic)
        return x, seen
