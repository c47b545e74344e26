"""The classifier: tokens in, logits of the labels out."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from flax_transformer.ops.dense import Dense
from flax_transformer.ops.dropout import Dropout, kept
from flax_transformer.ops.embedding import Embedding
from flax_transformer.ops.product import resolve_dtype
from flax_transformer.tasks.encoders import recurrent_layer, transformer_encoder, with_positions

from .config import ClassifierConfig
from .vocabulary import PAD_ID, UNK_ID


def mean_of(x: jax.Array, is_token: jax.Array) -> jax.Array:
    """The mean [B, D] of x [B, S, D] over tokens; zeros for a text without any."""
    count = jnp.maximum(is_token.sum(axis=1, keepdims=True), 1)
    return jnp.where(is_token[..., None], x, 0).sum(axis=1) / count.astype(x.dtype)


def max_of(x: jax.Array, is_token: jax.Array) -> jax.Array:
    """The maximum [B, D] of x [B, S, D] over tokens; zeros for a text without any."""
    lowest = jnp.finfo(x.dtype).min
    highest = jnp.where(is_token[..., None], x, lowest).max(axis=1)
    return jnp.where(is_token.any(axis=1, keepdims=True), highest, 0)


POOLS = {'mean': mean_of, 'max': max_of}


def average(config: ClassifierConfig, x: jax.Array, is_token: jax.Array, deterministic: bool) -> jax.Array:
    return mean_of(_dropped(config, x, deterministic), is_token)


def convolution(config: ClassifierConfig, x: jax.Array, is_token: jax.Array, deterministic: bool) -> jax.Array:
    """Each filter's highest response in the text (Kim 2014, section 2)."""
    x = _dropped(config, x, deterministic)
    return jnp.concatenate([_responses(config, x, is_token, width) for width in config.widths], axis=-1)


def _responses(config: ClassifierConfig, x: jax.Array, is_token: jax.Array, width: int) -> jax.Array:
    """[B, maps] of filters over `width` places, of which at least one is a token."""
    edge = (width - 1, width - 1)
    positions = x.shape[1] + width - 1
    x = jnp.pad(x, ((0, 0), edge, (0, 0)))
    is_token = jnp.pad(is_token, ((0, 0), edge))
    windows = jnp.concatenate([x[:, i : i + positions] for i in range(width)], axis=-1)
    covers = sum(is_token[:, i : i + positions].astype(jnp.int32) for i in range(width)) > 0
    dense = Dense(windows.shape[-1], config.num_maps, dtype=x.dtype, name=f'width_{width}')
    return max_of(nn.relu(dense(windows)), covers)


def recurrent(config: ClassifierConfig, x: jax.Array, is_token: jax.Array, deterministic: bool) -> jax.Array:
    for number in range(config.num_layers):
        x = recurrent_layer(config, number, _dropped(config, x, deterministic), is_token)
    return POOLS[config.pool](x, is_token)


def transformer(config: ClassifierConfig, x: jax.Array, is_token: jax.Array, deterministic: bool) -> jax.Array:
    x = _dropped(config, with_positions(x), deterministic)
    rate = config.encoder_dropout_rate
    x = transformer_encoder(config, x, is_token, deterministic=deterministic, dropout_rate=rate)
    return POOLS[config.pool](x, is_token)


def _dropped(config: ClassifierConfig, x: jax.Array, deterministic: bool) -> jax.Array:
    return Dropout(config.encoder_dropout_rate)(x, deterministic=deterministic)


SEQUENCES_LENGTH = 0.5  # of the vector of a text's sequences of characters; that of its words is 1
ENCODERS = {'average': average, 'recurrent': recurrent, 'convolution': convolution, 'transformer': transformer}


class Encoder(nn.Module):
    """A vector for each text, by one of ENCODERS, which add their parameters to this module."""

    config: ClassifierConfig

    @nn.compact
    def __call__(self, tokens: jax.Array, *, deterministic: bool = True) -> jax.Array:
        config = self.config
        dtype = jnp.dtype(config.dtype)
        is_scaled = config.encoder == 'transformer'
        table = Embedding(config.vocab_size, config.d_model, PAD_ID, is_scaled, dtype=dtype, name='embedding')
        return ENCODERS[config.encoder](config, table(tokens), tokens != PAD_ID, deterministic)


class Linear(nn.Module):
    """Logits [B, C] of tokens [B, S]: the sum of a weight for each token and label.

    The words of a text, and its sequences of characters, whose ids are negative and of which there are many more, are
    each a vector of a fixed length.
    """

    config: ClassifierConfig

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        shape = (self.config.vocab_size, self.config.num_classes)
        table = self.param('table', nn.initializers.zeros, shape)
        bias = self.param('bias', nn.initializers.zeros, shape[1:])
        scales = _unit_length(tokens > PAD_ID) + SEQUENCES_LENGTH * _unit_length(tokens < PAD_ID)
        return jnp.einsum('BS,BSC->BC', scales, table[tokens]) + bias[None]


def _unit_length(is_chosen: jax.Array) -> jax.Array:
    """[B, S] float32: 0 where not chosen, else equal values whose squares sum to 1."""
    return is_chosen / jnp.sqrt(jnp.maximum(is_chosen.sum(axis=1, keepdims=True), 1))


class ClassifierModel(nn.Module):
    """An encoder, dropout and a dense layer; or `Linear`. Shapes: B texts, S tokens, C labels."""

    config: ClassifierConfig

    @nn.compact
    def __call__(self, tokens: jax.Array, *, deterministic: bool = True) -> jax.Array:
        """Logits [B, C], float32, of tokens [B, S], padded with PAD_ID."""
        config = resolve_dtype(self.config)
        if config.word_dropout_rate and not deterministic:
            stays = kept(self.make_rng('dropout'), tokens.shape, config.word_dropout_rate)
            tokens = jnp.where(stays | (tokens == PAD_ID), tokens, UNK_ID)
        if config.encoder == 'linear':
            return Linear(config, name='output')(tokens)
        x = Encoder(config, name='encoder')(tokens, deterministic=deterministic)
        x = Dropout(config.dropout_rate)(x, deterministic=deterministic)
        return Dense(x.shape[-1], config.num_classes, name='output')(x.astype(jnp.float32))


def init_params(config: ClassifierConfig, key: jax.Array) -> Any:
    """The embedding of unk is zero: where training has no unknown words, those of later texts then say nothing."""

    def init(key: jax.Array) -> Any:
        params = ClassifierModel(config).init(key, jnp.ones((1, 1), jnp.int32))['params']
        if config.encoder == 'linear':
            return params  # all zeros
        embedding = params['encoder']['embedding']
        embedding = embedding | {'table': embedding['table'].at[UNK_ID].set(0)}
        return params | {'encoder': params['encoder'] | {'embedding': embedding}}

    return jax.jit(init)(key)


def probabilities(params: Any, tokens: jax.Array, *, model: nn.Module) -> jax.Array:
    """The probability of each label [B, C], float32, for tokens [B, S]."""
    return jax.nn.softmax(model.apply({'params': params}, tokens), axis=-1)
