"""The model: waveforms to log-mel features, changed at random in training, to logits of units.

Shapes: B utterances, S samples, F feature frames, M mel bands, T frames of the encoder, D width, V units. Of each row
the first num_samples, or num_frames [B], count; padding is 0.
"""

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from flax_transformer.audio.augment import among_first, gain, mixed, spec_augment
from flax_transformer.audio.features import LOG_FLOOR, log_mel
from flax_transformer.audio.mel import FeatureConfig, mel_edges, num_frames
from flax_transformer.ops.dense import Dense
from flax_transformer.ops.dropout import Dropout
from flax_transformer.ops.product import resolve_dtype
from flax_transformer.tasks.encoders import recurrent_layer, transformer_encoder, with_positions

from .config import PerturbationConfig, SpeechModelConfig

_QUIETEST_NOISE = 30.0  # dB below the loudest


def features_of(samples: jax.Array, num_samples: jax.Array, config: FeatureConfig) -> tuple[jax.Array, jax.Array]:
    """Leveled log-mel features [B, F, M] of samples [B, T], and how many frames count, [B]."""
    frames = num_frames(num_samples, config)
    features = log_mel(samples, config)
    return leveled(features, among_first(frames, features.shape[1])), frames


def leveled(features: jax.Array, is_frame: jax.Array) -> jax.Array:
    """Log-mel features [B, F, M] without the recording's level and half of its color.

    The level is the logarithm of the mean energy, which hardly depends on the pauses, unlike a mean of logarithms. The
    levels of bands are the color of microphone and voice, but in a recording of one word that word's own sound, too.

    13 dB correspond to 1, so that features of speech have about mean 0 and deviation 1. Frames that are not is_frame
    [B, F] become 0.
    """
    is_frame = is_frame[..., None]
    count = jnp.maximum(is_frame.sum(axis=1, keepdims=True), 1)
    of_bands = jnp.sum(jnp.exp(features) * is_frame, axis=1, keepdims=True) / count
    of_all = of_bands.mean(axis=2, keepdims=True)
    level = (jnp.log(of_all + LOG_FLOOR) + jnp.log(of_bands + LOG_FLOOR)) / 2
    return jnp.where(is_frame, jnp.maximum(features - level, -12) + 4, 0) / 3


def training_features(
    key: jax.Array,
    samples: jax.Array,
    num_samples: jax.Array,
    config: FeatureConfig,
    perturbation: PerturbationConfig,
) -> tuple[jax.Array, jax.Array]:
    """`features_of`, each utterance changed at random: its level, noise, vocal tract, color, and masks."""
    rows, length = samples.shape
    frames = num_frames(num_samples, config)
    waveform_key, tract_key, color_key, mask_key = jax.random.split(key, 4)
    is_sample = among_first(num_samples, length)
    change = partial(_changed, rate=config.sample_rate, config=perturbation)
    samples = jax.vmap(change)(jax.random.split(waveform_key, rows), samples, is_sample)
    features = log_mel(samples, config)
    if perturbation.vocal_tract > 1:
        exponents = jax.random.uniform(tract_key, (rows,), jnp.float32, minval=-1, maxval=1)
        features = warped(features, perturbation.vocal_tract**exponents, config)
    if perturbation.color_db:
        features = features + _colors(color_key, rows, perturbation.color_db, config.num_mels)
    is_frame = among_first(frames, features.shape[1])
    features = leveled(features, is_frame)
    mask = partial(
        spec_augment,
        num_band_masks=perturbation.band_masks,
        most_bands=perturbation.most_bands,
        num_frame_masks=perturbation.frame_masks,
        most_frames=round(perturbation.most_mask_ms / config.hop_ms),
    )
    return jax.vmap(mask)(jax.random.split(mask_key, rows), features, is_frame), frames


def _changed(
    key: jax.Array, samples: jax.Array, is_sample: jax.Array, *, rate: int, config: PerturbationConfig
) -> jax.Array:
    gain_key, noise_key, snr_key, color_key = jax.random.split(key, 4)
    if config.lowest_snr_db is not None:
        white = jax.random.normal(noise_key, samples.shape, jnp.float32)
        # Noise from white to about as dull as that of rooms.
        color = jax.random.uniform(color_key, dtype=jnp.float32)
        noise = white + color * (jnp.roll(white, 1) + jnp.roll(white, 2))
        ratio = config.lowest_snr_db + jax.random.uniform(snr_key, (), jnp.float32, maxval=_QUIETEST_NOISE)
        samples = mixed(samples, noise, ratio, rate, is_sample)
    loudness = jax.random.uniform(gain_key, (), jnp.float32, minval=-1, maxval=1)
    return gain(samples, config.gain_db * loudness)


def _colors(key: jax.Array, rows: int, deviation_db: float, num_mels: int) -> jax.Array:
    """Smooth random curves over the bands [rows, 1, M]."""
    waves = np.cos(np.pi * np.arange(1, 5)[:, None] * np.arange(num_mels) / num_mels)
    nats = float(deviation_db * np.log(10) / 10)
    return (nats * jax.random.normal(key, (rows, 4), jnp.float32) @ waves.astype(np.float32))[:, None]


def warped(features: jax.Array, factors: jax.Array, config: FeatureConfig) -> jax.Array:
    """Features [B, F, M] whose frequencies are multiplied by factors [B], as a shorter or longer vocal tract does.

    What is above a corner is mapped by another line, so that the top stays where it is (Jaitly and Hinton 2013).
    """
    factors = factors[:, None]
    edges = jnp.asarray(mel_edges(config), jnp.float32)
    middles = edges[1:-1][None]
    top = config.top_hz
    corner = 0.8 * top * jnp.minimum(factors, 1)
    above = top - (top - corner / factors) / (top - corner) * (top - middles)
    wanted = jnp.where(middles <= corner, middles / factors, above)
    numbers = jnp.asarray(np.arange(-1.0, len(edges) - 1), jnp.float32)
    bands = jnp.interp(wanted, edges, numbers)  # fractions lie between bands
    low = jnp.clip(jnp.floor(bands), 0, config.num_mels - 2)
    fraction = jnp.clip(bands - low, 0, 1)
    low = low.astype(jnp.int32)
    # One product does it: a gather of bands is slow on CPUs.
    weights = jax.nn.one_hot(low, config.num_mels, dtype=jnp.float32) * (1 - fraction)[..., None]
    weights = weights + jax.nn.one_hot(low + 1, config.num_mels, dtype=jnp.float32) * fraction[..., None]
    return jnp.einsum('BFM,BNM->BFN', features, weights)


class SpeechModel(nn.Module):
    config: SpeechModelConfig

    @nn.compact
    def __call__(
        self, features: jax.Array, num_frames: jax.Array, *, deterministic: bool = True
    ) -> tuple[jax.Array, jax.Array]:
        """Logits [B, T, V], float32, of features [B, F, M], and how many of the T frames count, as num_frames of F."""
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
        is_frame = among_first(num_frames, x.shape[1])
        x = Encoder(config, name='encoder')(x, is_frame, deterministic=deterministic)
        return Dense(x.shape[-1], config.vocab_size, name='output')(x.astype(jnp.float32)), num_frames


class Encoder(nn.Module):
    config: SpeechModelConfig

    @nn.compact
    def __call__(self, x: jax.Array, is_frame: jax.Array, *, deterministic: bool = True) -> jax.Array:
        config = self.config
        rate = config.dropout_rate
        if config.encoder == 'transformer':
            rates = {'dropout_rate': rate, 'attention_dropout_rate': rate}
            return transformer_encoder(config, with_positions(x), is_frame, deterministic=deterministic, **rates)
        for number in range(config.num_layers):
            x = recurrent_layer(config, number, x, is_frame)
            x = Dropout(rate)(x, deterministic=deterministic)
        return x


def init_params(config: SpeechModelConfig, num_mels: int, key: jax.Array) -> Any:
    features = jnp.zeros((1, config.stride, num_mels))
    return jax.jit(SpeechModel(config).init)(key, features, jnp.full(1, config.stride))['params']
