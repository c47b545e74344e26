"""Layer, RMS and group norm, each over the features of one position. Statistics are float32."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from flax_transformer.ops.batch_invariance import is_batch_invariant, normalized

from .config import GROUP_SIZE, TransformerConfig


class LayerNorm(nn.LayerNorm):
    """Linen's LayerNorm with the mean of squared deviations: E[x^2] - E[x]^2 is inexact if the mean is large."""

    use_fast_variance: bool = False

    def __call__(self, x: jax.Array) -> jax.Array:
        if not is_batch_invariant():
            return super().__call__(x)
        scale = self.get_variable('params', 'scale')
        bias = self.get_variable('params', 'bias')
        return normalized(x, scale, bias, self.epsilon).astype(self.dtype)


class RMSNorm(nn.RMSNorm):
    def __call__(self, x: jax.Array) -> jax.Array:
        if not is_batch_invariant():
            return super().__call__(x)
        scale = self.get_variable('params', 'scale')
        return normalized(x, scale, None, self.epsilon).astype(self.dtype)


def make_norm(config: TransformerConfig, name: str | None = None) -> nn.Module:
    common = {'epsilon': config.norm_epsilon, 'dtype': jnp.dtype(config.dtype), 'name': name}
    if config.norm == 'layer':  # Ba et al. 2016
        return LayerNorm(**common)
    if config.norm == 'rms':  # Zhang and Sennrich 2019
        return RMSNorm(**common)
    # Wu and He 2018
    groups = {'num_groups': None, 'group_size': GROUP_SIZE, 'reduction_axes': (-1,)}
    return nn.GroupNorm(**groups, use_fast_variance=False, **common)


def final_norm(config: TransformerConfig) -> nn.Module | None:
    """The norm after a pre-LN stack, whose last sum is not normalized yet; None for post-LN."""
    return make_norm(config) if config.norm_first else None
