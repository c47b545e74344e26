"""The model: log-mel features in, logits of the units for each frame out.

Shapes: B utterances, F feature frames, M mel bands, T frames of the encoder, D width, V units.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from flax_transformer.audio.augment import among_first
from flax_transformer.ops.dense import Dense
from flax_transformer.ops.dropout import Dropout
from flax_transformer.ops.product import resolve_dtype
from flax_transformer.tasks.encoders import recurrent_layer, transformer_encoder, with_positions

from .config import SpeechModelConfig


class SpeechModel(nn.Module):
    config: SpeechModelConfig

    @nn.compact
    def __call__(
        self, features: jax.Array, num_frames: jax.Array, *, deterministic: bool = True
    ) -> tuple[jax.Array, jax.Array]:
        """Logits [B, T, V], float32, of features [B, F, M], and how many of the T frames count, [B].

        T is F over `SpeechModelConfig.stride`, rounded up; num_frames [B] of F count.
        """
        config = resolve_dtype(self.config)
        x = features[..., None].astype(config.dtype)
        for number, (stride, channels) in enumerate(zip(config.strides, config.channels, strict=True)):
            x = jnp.where(among_first(num_frames, x.shape[1])[..., None, None], x, 0)
            convolution = nn.Conv(
                channels,
                (3, 3),
                strides=(stride, 2),
                padding=((1, 1), (1, 1)),  # not SAME: it would depend on the length what a frame sees
                dtype=config.dtype,
                name=f'convolutions_{number}',
            )
            x = nn.relu(convolution(x))
            num_frames = -(-num_frames // stride)
        x = x.reshape(*x.shape[:2], -1)
        x = Dense(x.shape[-1], config.d_model, dtype=x.dtype, name='projection')(x)
        x = Dropout(config.dropout_rate)(x, deterministic=deterministic)
        x = Encoder(config, name='encoder')(x, num_frames, deterministic=deterministic)
        return Dense(x.shape[-1], config.vocab_size, name='output')(x.astype(jnp.float32)), num_frames


class Encoder(nn.Module):
    """Layers of LSTMs or GRUs in both directions, or the Transformer's encoder (Vaswani et al. 2017, section 3.1)."""

    config: SpeechModelConfig

    @nn.compact
    def __call__(self, x: jax.Array, num_frames: jax.Array, *, deterministic: bool = True) -> jax.Array:
        config = self.config
        rate = config.dropout_rate
        counts = among_first(num_frames, x.shape[1])
        if config.encoder == 'transformer':
            rates = {'dropout_rate': rate, 'attention_dropout_rate': rate}
            return transformer_encoder(config, with_positions(x), counts, deterministic=deterministic, **rates)
        for number in range(config.num_layers):
            x = recurrent_layer(config, number, x, counts)
            x = Dropout(rate)(x, deterministic=deterministic)
        return x


def init_params(config: SpeechModelConfig, num_mels: int, key: jax.Array) -> Any:
    """Fresh float32 parameters, from one compiled program."""

    def init(key: jax.Array) -> Any:
        features = jnp.zeros((1, config.stride, num_mels))
        return SpeechModel(config).init(key, features, jnp.full(1, config.stride))['params']

    return jax.jit(init)(key)
