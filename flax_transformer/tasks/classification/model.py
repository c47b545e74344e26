"""The classifier: tokens in, logits of the labels out."""

from dataclasses import replace
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from flax_transformer.ops.dense import Dense
from flax_transformer.ops.dropout import Dropout, kept
from flax_transformer.tasks.classification.config import ClassifierConfig
from flax_transformer.tasks.classification.encoders import ENCODERS
from flax_transformer.tasks.classification.vocabulary import PAD_ID, UNK_ID


class ClassifierModel(nn.Module):
    """An encoder, dropout and a dense layer. Shapes: B texts, S tokens, C labels."""

    config: ClassifierConfig

    @nn.compact
    def __call__(self, tokens: jax.Array, *, deterministic: bool = True) -> jax.Array:
        """Logits [B, C], float32, of tokens [B, S], padded with PAD_ID."""
        config = resolve_dtype(self.config)
        if config.word_dropout_rate and not deterministic:
            stays = kept(self.make_rng('dropout'), tokens.shape, config.word_dropout_rate)
            tokens = jnp.where(stays | (tokens == PAD_ID), tokens, UNK_ID)
        x = ENCODERS[config.encoder](config, name='encoder')(tokens, deterministic=deterministic)
        x = Dropout(config.dropout_rate)(x, deterministic=deterministic)
        return Dense(x.shape[-1], config.num_classes, name='output')(x.astype(jnp.float32))


def resolve_dtype(config: ClassifierConfig, platform: str | None = None) -> ClassifierConfig:
    """The config with the dtype that 'auto' stands for on a platform; None: JAX's default."""
    if config.dtype != 'auto':
        return config
    return replace(config, dtype='float32' if (platform or jax.default_backend()) == 'cpu' else 'bfloat16')


def init_params(config: ClassifierConfig, key: jax.Array) -> Any:
    """Fresh float32 parameters, from one compiled program.

    The embedding of unk is zero: where training has no unknown words, those of later texts then say nothing.
    """

    def init(key: jax.Array) -> Any:
        params = ClassifierModel(config).init(key, jnp.ones((1, 1), jnp.int32))['params']
        embedding = params['encoder']['embedding']
        embedding = embedding | {'table': embedding['table'].at[UNK_ID].set(0)}
        return params | {'encoder': params['encoder'] | {'embedding': embedding}}

    return jax.jit(init)(key)


def parameter_shapes(config: ClassifierConfig) -> Any:
    """The parameters as `jax.ShapeDtypeStruct`s; computes nothing."""
    return jax.eval_shape(partial(init_params, config), jax.random.key(0))


def probabilities(params: Any, tokens: jax.Array, *, model: nn.Module) -> jax.Array:
    """The probability of each label [B, C], float32, for tokens [B, S]."""
    return jax.nn.softmax(model.apply({'params': params}, tokens), axis=-1)
