"""Norms by name: layer, RMS and group norm of each position; batch and instance norm, for the encoder alone.

Statistics are float32. Shapes: B batch, S positions, D features.
"""

from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from flax_transformer.transformer.attention import segment_mask
from flax_transformer.transformer.config import GROUP_SIZE

MOMENTUM = 0.9  # how much of the running statistics a step keeps


class BatchSums(NamedTuple):
    """What a batch norm saw in training, as sums over tokens, which add up over passes and devices.

    Deviations from the running mean are summed, not values: squares of values lose the variance if the mean is large.
    """

    count: jax.Array
    deviations: jax.Array  # [D]
    squares: jax.Array  # [D], squared deviations


class LayerNorm(nn.LayerNorm):
    """Linen's LayerNorm with the variance computed as the mean of squared deviations, in float32.

    Linen's default, E[x^2] - E[x]^2, loses precision if the mean is much larger than the deviation.
    """

    use_fast_variance: bool = False


class InstanceNorm(nn.Module):
    """Each feature normalized over the positions of its sentence (Ulyanov et al. 2016), then scale and bias.

    A sentence of one token becomes the bias.
    """

    epsilon: float
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x: jax.Array, segments: jax.Array) -> jax.Array:
        """Returns x [B, S, D], normalized; segments [B, S] number the sentences of a row from 1, 0 for padding."""
        is_own = segment_mask(segments, segments)[:, 0].astype(jnp.float32)
        weights = is_own / jnp.maximum(is_own.sum(axis=-1, keepdims=True), 1.0)
        mean_over = partial(jnp.einsum, 'BTS,BSD->BTD', weights, precision=jax.lax.Precision.HIGHEST)
        x = _tokens(x.astype(jnp.float32), segments)
        deviation = x - mean_over(x)
        variance = mean_over(jnp.square(deviation))
        return _scaled(self, deviation * jax.lax.rsqrt(variance + self.epsilon))


class BatchNorm(nn.Module):
    """Each feature normalized over all tokens of a batch (Ioffe and Szegedy 2015), then scale and bias.

    Padding does not count. In training the statistics are those of the rows that a pass sees: under pmap those of one
    device, on a mesh those of all, and of one pass where a batch is cut into several. Otherwise they are the running
    ones, `mean` and `variance`: parameters without a gradient, which `with_running_statistics` renews after each step
    from the `BatchSums` sown in the collection 'statistics'.
    """

    epsilon: float
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x: jax.Array, segments: jax.Array, *, deterministic: bool = True) -> jax.Array:
        """Returns x [B, S, D], normalized; segments as in `InstanceNorm`."""
        size = (x.shape[-1],)
        mean = jax.lax.stop_gradient(self.param('mean', nn.initializers.zeros, size, jnp.float32))
        variance = jax.lax.stop_gradient(self.param('variance', nn.initializers.ones, size, jnp.float32))
        x = x.astype(jnp.float32)
        if not deterministic:
            running, count = mean, (segments > 0).sum().astype(jnp.float32)
            mean_over = lambda x: _tokens(x, segments).sum(axis=(0, 1)) / jnp.maximum(count, 1.0)
            mean = mean_over(x)
            variance = mean_over(jnp.square(x - mean[None, None]))
            deviation = mean - running
            sums = BatchSums(count, count * deviation, count * (variance + jnp.square(deviation)))
            self.sow('statistics', 'sums', jax.lax.stop_gradient(sums), reduce_fn=lambda _, sums: sums)
        # Padding becomes the bias: its values, which nothing holds back, could grow from layer to layer.
        normalized = _tokens(x - mean[None, None], segments) * jax.lax.rsqrt(variance + self.epsilon)[None, None]
        return _scaled(self, normalized)


def _tokens(x: jax.Array, segments: jax.Array) -> jax.Array:
    """Returns x [B, S, D] with zeros at padding."""
    return jnp.where((segments > 0)[..., None], x, 0.0)


def _scaled(module: InstanceNorm | BatchNorm, x: jax.Array) -> jax.Array:
    scale = module.param('scale', nn.initializers.ones, (x.shape[-1],), jnp.float32)
    bias = module.param('bias', nn.initializers.zeros, (x.shape[-1],), jnp.float32)
    return (x * scale[None, None] + bias[None, None]).astype(module.dtype)


def make_norm(kind: str, epsilon: float, dtype: jnp.dtype, name: str | None = None) -> nn.Module:
    """Returns the norm that `TransformerConfig.norm` names."""
    common = {'epsilon': epsilon, 'dtype': dtype, 'name': name}
    if kind == 'group':  # Wu and He 2018, over one position's features
        per_position = {'group_size': GROUP_SIZE, 'reduction_axes': (-1,), 'use_fast_variance': False}
        return nn.GroupNorm(num_groups=None, **per_position, **common)
    # RMS norm: Zhang and Sennrich 2019.
    return {'layer': LayerNorm, 'rms': nn.RMSNorm, 'instance': InstanceNorm, 'batch': BatchNorm}[kind](**common)


def normalize(norm: nn.Module, x: jax.Array, segments: jax.Array | None, *, deterministic: bool) -> jax.Array:
    """Returns x [B, S, D], normalized by any norm. `segments` as in `InstanceNorm`."""
    if isinstance(norm, BatchNorm):
        return norm(x, segments, deterministic=deterministic)
    return norm(x, segments) if isinstance(norm, InstanceNorm) else norm(x)


def with_running_statistics(params: Any, seen: Any) -> Any:
    """Returns the parameters with running statistics renewed by the collection 'statistics' of a step."""
    if 'sums' not in seen:
        return {**params, **{name: with_running_statistics(params[name], each) for name, each in seen.items()}}
    sums: BatchSums = seen['sums']
    count = jnp.maximum(sums.count, 1.0)
    deviation = sums.deviations / count
    variance = jnp.maximum(sums.squares / count - jnp.square(deviation), 0.0)
    batch = {'mean': params['mean'] + deviation, 'variance': variance}
    step = jnp.where(sums.count > 0, 1.0 - MOMENTUM, 0.0)
    return {**params, **{name: params[name] + step * (value - params[name]) for name, value in batch.items()}}
