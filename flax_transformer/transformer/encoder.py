"""The encoder: a stack of self-attention and feed-forward layers (Vaswani et al. 2017, section 3.1, figure 1 left)."""

from functools import partial

import flax.linen as nn
import jax

from .attention import MultiHeadAttention
from .config import TransformerConfig
from .layers import FeedForward, Residual, run_layers
from .norms import final_norm


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each with its residual connection and norm."""

    config: TransformerConfig

    def setup(self) -> None:
        self.self_attention = MultiHeadAttention.of(self.config)
        self.self_residual = Residual(self.config)
        self.feed_forward = FeedForward(self.config)
        self.feed_forward_residual = Residual(self.config)

    def __call__(self, x: jax.Array, mask: jax.Array | None, *, deterministic: bool = True) -> jax.Array:
        """x [B, S, D] after the layer."""
        attend = partial(self.self_attention, mask=mask, deterministic=deterministic)
        transform = partial(self.feed_forward, deterministic=deterministic)
        x = self.self_residual(x, attend, deterministic=deterministic)
        return self.feed_forward_residual(x, transform, deterministic=deterministic)


class Encoder(nn.Module):
    """Memory [B, S, D] of embedded source x [B, S, D] under a mask that broadcasts to [B, H, S, S]."""

    config: TransformerConfig
    remat: bool = False

    def setup(self) -> None:
        self.layers = [EncoderLayer(self.config) for _ in range(self.config.num_encoder_layers)]
        self.final_norm = final_norm(self.config)

    def __call__(self, x: jax.Array, mask: jax.Array | None, *, deterministic: bool = True) -> jax.Array:
        x = run_layers(self.layers, x, mask, remat=self.remat, deterministic=deterministic)
        return x if self.final_norm is None else self.final_norm(x)
