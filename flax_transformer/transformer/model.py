"""The Transformer: source and target ids in, logits out (Vaswani et al. 2017, figure 1).

A translation model is anything with three methods: `__call__`, `start` and `decode`.
Shapes: B batch, S source tokens, T target tokens, D d_model, V vocabulary, N = B * beams.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from flax_transformer.common.trees import DecodeState
from flax_transformer.ops.dropout import Dropout
from flax_transformer.ops.embedding import Embedding, TiedEmbeddings
from flax_transformer.transformer.attention import causal_mask, padding_mask, segment_mask
from flax_transformer.transformer.config import TransformerConfig
from flax_transformer.transformer.decoder import Decoder
from flax_transformer.transformer.encoder import Encoder
from flax_transformer.transformer.layers import Positions


def shift_right(target: jax.Array, pad_id: int, positions: jax.Array | None = None) -> jax.Array:
    """The decoder's input [B, T]: the target shifted by one, with pad_id (a zero vector) where a sentence begins.

    In packed rows a sentence begins where `positions` [B, T] is 0.

    >>> shift_right(jnp.array([[5, 6, 1]]), pad_id=0).tolist()
    [[0, 5, 6]]
    >>> shift_right(jnp.array([[5, 1, 6, 1]]), 0, jnp.array([[0, 1, 0, 1]])).tolist()
    [[0, 5, 0, 6]]
    """
    shifted = jnp.roll(target, 1, axis=1)
    begins = jnp.arange(target.shape[1])[None] == 0 if positions is None else positions == 0
    return jnp.where(begins, pad_id, shifted)


def resolve_dtype(config: TransformerConfig, platform: str | None = None) -> TransformerConfig:
    """The config as it computes on a platform, by default JAX's own: dtype is a concrete type, attention what runs.

    'auto' is float32 on CPUs and bfloat16 elsewhere; cuDNN's attention is for GPUs, others get the plain one.
    """
    platform = platform or jax.default_backend()
    if config.attention == 'cudnn' and platform != 'gpu':
        config = replace(config, attention='plain')
    return replace(config, dtype='float32' if platform == 'cpu' else 'bfloat16') if config.dtype == 'auto' else config


class Transformer(TiedEmbeddings, nn.Module):
    """Encoder, decoder, embeddings and the projection to logits."""

    config: TransformerConfig
    remat: bool = False  # keep only each layer's input for the backward pass and recompute the rest: less memory

    supports_int8 = True  # of parameters

    def setup(self) -> None:
        config = resolve_dtype(self.config)  # here alone: the layers get the resolved config
        dtype = jnp.dtype(config.dtype)

        def embedding(vocab_size: int) -> Embedding:
            row = config.pad_row
            return Embedding(vocab_size, config.d_model, config.pad_id, config.scale_embedding, row, dtype)

        def positions() -> Positions:
            return Positions(config.d_model, config.positions, config.max_length, dtype)

        self.set_up_embeddings(embedding)
        self.source_positions, self.target_positions = positions(), positions()
        self.dropout = Dropout(config.dropout_rate)
        self.encoder = Encoder(config, self.remat)
        self.decoder = Decoder(config, self.remat)

    @property
    def max_positions(self) -> int | None:
        """The longest source or target with learned positions; None: any length."""
        return self.config.max_positions

    def _embed_source(self, source: jax.Array, positions: jax.Array | None, deterministic: bool) -> jax.Array:
        table = self.embedding_of('source')
        length = source.shape[1]
        x = self.source_positions(table(source), jnp.arange(length)[None] if positions is None else positions, length)
        return self.dropout(x, deterministic=deterministic)

    def _embed_target(
        self, target_in: jax.Array, positions: jax.Array, length: int, deterministic: bool = True
    ) -> jax.Array:
        table = self.embedding_of('target')
        x = self.target_positions(table(target_in), positions, length)
        return self.dropout(x, deterministic=deterministic)

    def encode(
        self,
        source: jax.Array,
        *,
        segments: jax.Array | None = None,
        positions: jax.Array | None = None,
        deterministic: bool = True,
    ) -> jax.Array:
        """Memory [B, S, D] of source ids [B, S], padded with pad_id; or of packed rows, with their segment numbers
        (from 1; 0 is padding) and positions, both [B, S]."""
        if segments is None:
            mask = padding_mask(source, self.config.pad_id)
            segments = mask[:, 0, 0].astype(jnp.int32)
        else:
            mask = segment_mask(segments, segments)
        x = self._embed_source(source, positions, deterministic)
        return self.encoder(x, mask, segments, deterministic=deterministic)

    def _target_side(
        self,
        source: jax.Array,
        target_in: jax.Array,
        source_segments: jax.Array | None,
        target_segments: jax.Array | None,
        target_positions: jax.Array | None,
        deterministic: bool,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Embedded target, its self-attention mask, and its mask over the source."""
        length = target_in.shape[1]
        self_mask = causal_mask(length)
        if target_segments is None:
            # Padding comes after the sentence, so causality already hides it.
            memory_mask = padding_mask(source, self.config.pad_id)
        else:
            self_mask = self_mask & segment_mask(target_segments, target_segments)
            memory_mask = segment_mask(target_segments, source_segments)
        positions = jnp.arange(length)[None] if target_positions is None else target_positions
        return self._embed_target(target_in, positions, length, deterministic), self_mask, memory_mask

    def __call__(self, source: jax.Array, target_in: jax.Array, **keywords: Any) -> jax.Array:
        """Logits [B, T, V], float32, of source ids [B, S] and decoder inputs [B, T]; takes the keywords of `hidden`."""
        return self.project(self.hidden(source, target_in, **keywords))

    def hidden(
        self,
        source: jax.Array,
        target_in: jax.Array,
        *,
        source_segments: jax.Array | None = None,
        target_segments: jax.Array | None = None,
        source_positions: jax.Array | None = None,
        target_positions: jax.Array | None = None,
        deterministic: bool = True,
    ) -> jax.Array:
        """The decoder's last hidden states [B, T, D], which `project` turns into logits.

        From source ids [B, S] and decoder inputs [B, T] (see `shift_right`). What batch norms see in training is sown.
        Segments and positions, [B, S] and [B, T], describe packed rows; without them, a row is one sentence.
        """
        memory = self.encode(source, segments=source_segments, positions=source_positions, deterministic=deterministic)
        x, self_mask, memory_mask = self._target_side(
            source, target_in, source_segments, target_segments, target_positions, deterministic
        )
        return self.decoder(x, memory, self_mask, memory_mask, deterministic=deterministic)

    def cross_attention(self, source: jax.Array, target_in: jax.Array) -> jax.Array:
        """Attention of each decoder layer over the source, [layers, B, H, T, S], for inspection."""
        x, self_mask, memory_mask = self._target_side(source, target_in, None, None, None, True)
        return self.decoder.look(x, self.encode(source), self_mask, memory_mask)

    def start(self, source: jax.Array) -> DecodeState:
        """The decode state of source ids [B, S]; the encoder runs here, once."""
        return self.decoder.start(self.encode(source), padding_mask(source, self.config.pad_id))

    def decode(self, tokens: jax.Array, state: DecodeState) -> tuple[jax.Array, DecodeState]:
        """Logits [N, V] of the token after `tokens` [N], and the state after it; N is a multiple of B."""
        logits, _, state = self.decode_and_look(tokens, state)
        return logits, state

    def decode_and_look(self, tokens: jax.Array, state: DecodeState) -> tuple[jax.Array, jax.Array, DecodeState]:
        """As `decode`, with the attention of each hypothesis over the source, [N, S], as the second result."""
        tokens = tokens.reshape(state.shared.mask.shape[0], -1)  # [B, W]
        length = state.slots[0].num_slots // tokens.shape[1]
        x = self._embed_target(tokens, state.position[None, None], length)
        x, weights, state = self.decoder.decode(x, state)
        return self.project(x.reshape(-1, x.shape[-1])), weights, state


def init_params(config: TransformerConfig, key: jax.Array) -> Any:
    """Fresh float32 parameters, from one compiled program."""
    tokens = jnp.zeros((1, 1), jnp.int32)
    return jax.jit(Transformer(config).init)(key, tokens, tokens)['params']


def parameter_shapes(config: TransformerConfig) -> Any:
    """The tree of parameters as `jax.ShapeDtypeStruct`, one for each; computes nothing."""
    return jax.eval_shape(partial(init_params, config), jax.random.key(0))
