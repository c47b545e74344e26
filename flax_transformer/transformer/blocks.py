"""The parts of a layer, made as the config says: what encoder and decoder are built of."""

import jax
import jax.numpy as jnp

from flax_transformer.transformer.attention import MultiHeadAttention
from flax_transformer.transformer.config import TransformerConfig
from flax_transformer.transformer.layers import FeedForward, LayerNorm, Residual


def compute_dtype(config: TransformerConfig, platform: str | None = None) -> jnp.dtype:
    """The type that activations are computed in, on JAX's own platform or another; parameters stay float32."""
    if config.dtype == 'auto':
        return jnp.dtype(jnp.float32 if (platform or jax.default_backend()) == 'cpu' else jnp.bfloat16)
    return jnp.dtype(config.dtype)


def make_attention(config: TransformerConfig) -> MultiHeadAttention:
    return MultiHeadAttention(
        d_model=config.d_model,
        num_heads=config.num_heads,
        head_dim=config.width_of_head,
        use_bias=config.attention_bias,
        dropout_rate=config.attention_dropout_rate,
        is_fused=config.attention == 'cudnn' and jax.default_backend() == 'gpu',
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
