"""The Transformer: source and target ids in, logits out (Vaswani et al. 2017, figure 1).

Shapes: B batch, S source tokens, T target tokens, D d_model, V vocabulary, N = B * beams.
"""

import contextlib
from dataclasses import replace
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from flax_transformer.common.errors import UserError
from flax_transformer.common.trees import DecodeState
from flax_transformer.ops import product
from flax_transformer.ops.dropout import Dropout
from flax_transformer.ops.embedding import Embeddings
from flax_transformer.ops.gpu import compute_capability

from .attention import causal_mask, padding_mask, segment_mask
from .config import TransformerConfig
from .decoder import Decoder
from .encoder import Encoder
from .layers import Positions, RelativePositions
from .norms import make_norm


def shift_right(target: jax.Array, start_id: int, positions: jax.Array | None = None) -> jax.Array:
    """The decoder's input [B, T]: the target shifted by one, after start_id at each beginning.

    In packed rows a sentence begins where `positions` [B, T] is 0.

    >>> shift_right(jnp.array([[5, 6, 1]]), start_id=0).tolist()
    [[0, 5, 6]]
    >>> shift_right(jnp.array([[5, 1, 6, 1]]), 0, jnp.array([[0, 1, 0, 1]])).tolist()
    [[0, 5, 0, 6]]
    """
    shifted = jnp.roll(target, 1, axis=1)
    begins = jnp.arange(target.shape[1])[None] == 0 if positions is None else positions == 0
    return jnp.where(begins, start_id, shifted)


def resolve_dtype(config: TransformerConfig, platform: str | None = None) -> TransformerConfig:
    """The config with a concrete dtype, and with plain attention where cuDNN's cannot run."""
    plain = product.resolve_dtype(replace(config, attention='plain'), platform)
    can_fuse = (platform or jax.default_backend()) == 'gpu' and plain.dtype == 'bfloat16'
    return replace(plain, attention='cudnn') if can_fuse and config.attention == 'cudnn' else plain


def with_fastest_attention(config: TransformerConfig, device: jax.Device) -> TransformerConfig:
    """The config with the attention that 'auto' stands for where the device trains it."""
    if config.attention != 'auto':
        return config
    capability = compute_capability(device)
    is_known = capability is not None and 8 <= capability < 10  # from Ampere to Hopper, where it was measured
    if is_known and config.width_of_head <= 128:
        with contextlib.suppress(UserError):  # other settings rule it out
            return replace(config, attention='cudnn')
    return replace(config, attention='plain')


class Transformer(nn.Module):
    """A `TranslationModel`: encoder, decoder, embeddings and the projection to logits."""

    config: TransformerConfig
    remat: bool = False  # keep only each layer's input for the backward pass and recompute the rest: less memory
    platform: str | None = None  # what it is compiled for; None: JAX's default

    supports_int8 = True  # parameters may be `Int8`

    @property
    def supports_batch_invariance(self) -> bool:
        """Whether ops/batch_invariance.py has a form for all that it does with floats."""
        config = self.config
        return config.norm != 'group' and config.attention_score != 'additive' and config.width_of_head % 64 == 0

    def setup(self) -> None:
        config = resolve_dtype(self.config, self.platform)  # the layers get the resolved config
        self.embeddings = Embeddings(config, config.scale_embedding, config.pad_row, jnp.dtype(config.dtype))
        nn.share_scope(self, self.embeddings)
        if config.positions == 'relative':
            self.source_positions = RelativePositions(config.num_heads, is_causal=False)
            self.target_positions = RelativePositions(config.num_heads, is_causal=True)
        else:
            self.source_positions, self.target_positions = Positions.of(config), Positions.of(config)
        self.source_norm = self.target_norm = None
        if config.embedding_norm:
            self.source_norm, self.target_norm = make_norm(config), make_norm(config)
        self.dropout = Dropout(config.dropout_rate)
        self.encoder = Encoder(config, self.remat)
        self.decoder = Decoder(config, self.remat)

    @property
    def max_positions(self) -> int | None:
        return self.config.max_positions

    @property
    def start_id(self) -> int:
        return self.config.pad_id if self.config.start_id is None else self.config.start_id

    def __call__(self, source: jax.Array, target_in: jax.Array, **keywords: Any) -> jax.Array:
        return self.project(self.hidden(source, target_in, **keywords))

    def encode(
        self,
        source: jax.Array,
        *,
        segments: jax.Array | None = None,
        positions: jax.Array | None = None,
        deterministic: bool = True,
    ) -> jax.Array:
        """Memory [B, S, D] of source ids [B, S]; packed rows have segments (from 1; 0 is padding) and positions."""
        if segments is None:
            mask = padding_mask(source, self.config.pad_id)
        else:
            mask = segment_mask(segments, segments)
        mask = self._biased(self.source_positions, mask, source, positions)
        x = self._embed('source', source, positions, deterministic=deterministic)
        return self.encoder(x, mask, deterministic=deterministic)

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

        Takes source ids [B, S] and decoder inputs [B, T] (see `shift_right`); without segments, a row is one sentence.
        """
        memory = self.encode(source, segments=source_segments, positions=source_positions, deterministic=deterministic)
        masks = self._target_masks(source, target_in, source_segments, target_segments, target_positions)
        x = self._embed('target', target_in, target_positions, deterministic=deterministic)
        return self.decoder(x, memory, *masks, deterministic=deterministic)

    def project(self, x: jax.Array) -> jax.Array:
        """Logits [..., V], float32, of hidden states [..., D]; reads only the parameters in `output_names`."""
        return self.embeddings.logits(x)

    def cross_attention(self, source: jax.Array, target_in: jax.Array) -> jax.Array:
        """Every decoder layer's attention over the source, [layers, B, H, T, S]."""
        masks = self._target_masks(source, target_in)
        return self.decoder.attention_weights(self._embed('target', target_in), self.encode(source), *masks)

    def start(self, source: jax.Array) -> DecodeState:
        return self.decoder.start(self.encode(source), padding_mask(source, self.config.pad_id))

    def decode(self, tokens: jax.Array, state: DecodeState) -> tuple[jax.Array, DecodeState]:
        logits, _, state = self.decode_with_attention(tokens, state)
        return logits, state

    def decode_with_attention(self, tokens: jax.Array, state: DecodeState) -> tuple[jax.Array, jax.Array, DecodeState]:
        """As `decode`, with the attention [N, S] over the source in between."""
        tokens = tokens.reshape(state.shared.mask.shape[0], -1)  # [B, W]
        length = state.slots[0].num_slots // tokens.shape[1]
        x = self._embed('target', tokens, state.position[None, None], length)
        x, weights, state = self.decoder.decode(x, state, self.target_positions.biased)
        return self.project(x.reshape(-1, x.shape[-1])), weights, state

    def _embed(
        self,
        side: str,
        tokens: jax.Array,
        positions: jax.Array | None = None,
        length: int | None = None,  # above all positions; None: that of the row
        deterministic: bool = True,
    ) -> jax.Array:
        if side == 'source':
            embed, add_positions, norm = self.embeddings.source, self.source_positions, self.source_norm
        else:
            embed, add_positions, norm = self.embeddings.target, self.target_positions, self.target_norm

        if length is None:
            length = tokens.shape[1]
        if positions is None:
            positions = jnp.arange(length)[None]
        x = add_positions(embed(tokens), positions, length)
        if norm is not None:
            x = norm(x)
        return self.dropout(x, deterministic=deterministic)

    def _target_masks(
        self,
        source: jax.Array,
        target_in: jax.Array,
        source_segments: jax.Array | None = None,
        target_segments: jax.Array | None = None,
        positions: jax.Array | None = None,
    ) -> tuple[jax.Array, jax.Array]:
        """The target's masks over itself and over the source."""
        own = causal_mask(target_in.shape[1])
        if target_segments is None:
            # Padding comes after the sentence, so causality already hides it.
            over_source = padding_mask(source, self.config.pad_id)
        else:
            own &= segment_mask(target_segments, target_segments)
            over_source = segment_mask(target_segments, source_segments)
        return self._biased(self.target_positions, own, target_in, positions), over_source

    @staticmethod
    def _biased(side: nn.Module, mask: jax.Array, tokens: jax.Array, positions: jax.Array | None) -> jax.Array:
        if positions is None:
            positions = jnp.arange(tokens.shape[1])[None]
        return side.biased(mask, positions, positions)


def init_params(config: TransformerConfig, key: jax.Array) -> Any:
    """Fresh float32 parameters, from one compiled program."""
    tokens = jnp.zeros((1, 1), jnp.int32)
    return jax.jit(Transformer(config).init)(key, tokens, tokens)['params']


def parameter_shapes(config: TransformerConfig) -> Any:
    """Each parameter as a `jax.ShapeDtypeStruct`; computes nothing."""
    return jax.eval_shape(partial(init_params, config), jax.random.key(0))
