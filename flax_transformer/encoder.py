"""The encoder: a stack of self-attention and feed-forward layers (Vaswani et al. 2017, section 3.1, figure 1 left)."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from flax_transformer.attention import MultiHeadAttention
from flax_transformer.config import TransformerConfig
from flax_transformer.layers import FeedForward, LayerNorm, Residual


def compute_dtype(config: TransformerConfig) -> jnp.dtype:
    """The type that activations are computed in; parameters stay float32."""
    if config.dtype == 'auto':
        return jnp.dtype(jnp.float32 if jax.default_backend() == 'cpu' else jnp.bfloat16)
    return jnp.dtype(config.dtype)


def make_attention(config: TransformerConfig) -> MultiHeadAttention:
    return MultiHeadAttention(
        d_model=config.d_model,
        num_heads=config.num_heads,
        head_dim=config.width_of_head,
        use_bias=config.attention_bias,
        dropout_rate=config.attention_dropout_rate,
        dtype=compute_dtype(config),
    )


def make_feed_forward(config: TransformerConfig) -> FeedForward:
    rate = config.activation_dropout_rate
    return FeedForward(config.d_model, config.d_ff, config.activation, rate, compute_dtype(config))


def make_residual(config: TransformerConfig) -> Residual:
    return Residual(config.dropout_rate, config.norm_first, config.norm_epsilon, compute_dtype(config))


def make_final_norm(config: TransformerConfig) -> LayerNorm | None:
    """The norm behind a pre-LN stack, whose last sum nothing has normalised; a post-LN stack needs none."""
    return LayerNorm(config.norm_epsilon, dtype=compute_dtype(config)) if config.norm_first else None


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each with its residual connection and norm."""

    config: TransformerConfig

    def setup(self) -> None:
        self.self_attention = make_attention(self.config)
        self.self_residual = make_residual(self.config)
        self.feed_forward = make_feed_forward(self.config)
        self.feed_forward_residual = make_residual(self.config)

    def __call__(self, x: jax.Array, mask: jax.Array | None, *, deterministic: bool = True) -> jax.Array:
        def attend(x: jax.Array) -> jax.Array:
            return self.self_attention(x, x, mask, deterministic=deterministic)

        def transform(x: jax.Array) -> jax.Array:
            return self.feed_forward(x, deterministic=deterministic)

        x = self.self_residual(x, attend, deterministic=deterministic)
        return self.feed_forward_residual(x, transform, deterministic=deterministic)


class Encoder(nn.Module):
    """Memory [B, S, D] of embedded source x [B, S, D] under a mask that broadcasts to [B, H, S, S]."""

    config: TransformerConfig

    def setup(self) -> None:
        self.layers = [EncoderLayer(self.config) for _ in range(self.config.num_encoder_layers)]
        self.final_norm = make_final_norm(self.config)

    def __call__(self, x: jax.Array, mask: jax.Array | None, *, deterministic: bool = True) -> jax.Array:
        for layer in self.layers:
            x = layer(x, mask, deterministic=deterministic)
        return self.final_norm(x) if self.final_norm is not None else x
