"""Norms by name, each over the features of one position: layer, RMS and group norm. Statistics are float32."""

import flax.linen as nn
import jax.numpy as jnp

from .config import GROUP_SIZE


class LayerNorm(nn.LayerNorm):
    """Linen's LayerNorm with the variance computed as the mean of squared deviations, in float32.

    Linen's default, E[x^2] - E[x]^2, loses precision if the mean is much larger than the deviation.
    """

    use_fast_variance: bool = False


def make_norm(kind: str, epsilon: float, dtype: jnp.dtype, name: str | None = None) -> nn.Module:
    """The norm that `TransformerConfig.norm` names."""
    common = {'epsilon': epsilon, 'dtype': dtype, 'name': name}
    if kind == 'layer':  # Ba et al. 2016
        return LayerNorm(**common)
    if kind == 'rms':  # Zhang and Sennrich 2019
        return nn.RMSNorm(**common)
    if kind == 'group':  # Wu and He 2018
        return nn.GroupNorm(
            num_groups=None, group_size=GROUP_SIZE, reduction_axes=(-1,), use_fast_variance=False, **common
        )
    raise ValueError(f"norm={kind!r}: expected 'layer', 'rms' or 'group'")
