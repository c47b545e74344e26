"""The encoder: a stack of self-attention and feed-forward layers (Vaswani et al. 2017, section 3.1, figure 1 left)."""

import flax.linen as nn
import jax

from flax_transformer.transformer.attention import MultiHeadAttention
from flax_transformer.transformer.config import TransformerConfig
from flax_transformer.transformer.layers import FeedForward, Residual, final_norm
from flax_transformer.transformer.norms import normalize


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
    ) -> jax.Array:
        """Returns x [B, S, D] after the layer."""
        attend = lambda x: self.self_attention(x, x, mask, deterministic=deterministic)
        transform = lambda x: self.feed_forward(x, deterministic=deterministic)
        x = self.self_residual(x, attend, segments, deterministic=deterministic)
        return self.feed_forward_residual(x, transform, segments, deterministic=deterministic)


class Encoder(nn.Module):
    """Returns memory [B, S, D] of embedded source x [B, S, D] under a mask that broadcasts to [B, H, S, S].

    `segments` [B, S] number the sentences of a row from 1, 0 for padding: needed by batch and instance norm only.
    """

    config: TransformerConfig
    remat: bool = False

    def setup(self) -> None:
        self.layers = [EncoderLayer(self.config) for _ in range(self.config.num_encoder_layers)]
        self.final_norm = final_norm(self.config, self.config.norm_of_encoder)

    def __call__(
        self, x: jax.Array, mask: jax.Array | None, segments: jax.Array | None = None, *, deterministic: bool = True
    ) -> jax.Array:
        run = lambda layer, x, *rest: layer(x, *rest, deterministic=deterministic)
        for layer in self.layers:
            x = (nn.remat(run) if self.remat else run)(layer, x, mask, segments)
        if self.final_norm is not None:
            x = normalize(self.final_norm, x, segments, deterministic=deterministic)
        return x
