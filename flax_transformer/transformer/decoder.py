"""The decoder, on whole sentences and one token at a time (Vaswani et al. 2017, section 3.1, figure 1 right)."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from flax_transformer.common.trees import DecodeState
from flax_transformer.ops.batch_invariance import is_batch_invariant, widened

from .attention import MultiHeadAttention
from .cache import KVCache, visible_slots
from .config import TransformerConfig
from .layers import FeedForward, Residual, Sublayer, run_layers
from .norms import final_norm


class DecoderLayer(nn.Module):
    """Masked self-attention, attention over the encoder's memory, feed-forward."""

    config: TransformerConfig

    def setup(self) -> None:
        self.self_attention = MultiHeadAttention.of(self.config)
        self.self_residual = Residual(self.config)
        self.cross_attention = MultiHeadAttention.of(self.config)
        self.cross_residual = Residual(self.config)
        self.feed_forward = FeedForward(self.config)
        self.feed_forward_residual = Residual(self.config)

    def __call__(
        self,
        x: jax.Array,
        memory: jax.Array,
        self_mask: jax.Array,
        memory_mask: jax.Array,
        *,
        deterministic: bool = True,
    ) -> jax.Array:
        """x [B, T, D] after the layer, all positions at once, over memory [B, S, D]."""
        attend_self = partial(self.self_attention, mask=self_mask, deterministic=deterministic)
        attend_memory = partial(self.cross_attention, memory=memory, mask=memory_mask, deterministic=deterministic)
        return self._sublayers(x, attend_self, attend_memory, deterministic)

    def _sublayers(
        self, x: jax.Array, attend_self: Sublayer, attend_memory: Sublayer, deterministic: bool = True
    ) -> jax.Array:
        transform = partial(self.feed_forward, deterministic=deterministic)
        x = self.self_residual(x, attend_self, deterministic=deterministic)
        x = self.cross_residual(x, attend_memory, deterministic=deterministic)
        return self.feed_forward_residual(x, transform, deterministic=deterministic)

    def project_memory(self, memory: jax.Array) -> KVCache:
        """Keys and values of memory [B, S, D]; needed once per sentence."""
        k, v = self.cross_attention.project_memory(memory)
        if is_batch_invariant():  # here once, not anew for each token
            k = widened(k, 1)
            v = widened(v, 1)
        return KVCache.packed(k, v)

    def with_weights(
        self, x: jax.Array, attend_self: Sublayer, memory: KVCache, memory_mask: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """x [B, T, D] after the layer, without dropout, and its attention over the memory [B, H, T, S]."""
        weights = None

        def attend_memory(x: jax.Array) -> jax.Array:
            nonlocal weights
            out, weights = self.cross_attention.attend_cached(x, memory, memory_mask)
            return out

        return self._sublayers(x, attend_self, attend_memory), weights

    def decode(
        self,
        x: jax.Array,
        position: jax.Array,
        cache: KVCache,
        visible: jax.Array,
        memory: KVCache,
        memory_mask: jax.Array,
    ) -> tuple[jax.Array, jax.Array, KVCache]:
        """One new position x [B, W, D] after the layer, its attention [B, H, W, S], and the cache with it."""

        def attend_self(x: jax.Array) -> jax.Array:
            nonlocal cache
            out, cache = self.self_attention.decode(x, cache, position, visible)
            return out

        # The W hypotheses of a sentence query its memory as W positions would: nothing is copied per beam.
        x, weights = self.with_weights(x, attend_self, memory, memory_mask)
        return x, weights, cache


class Shared(NamedTuple):
    """What all hypotheses of a sentence read: every layer's memory, and which of its positions are not padding."""

    memories: tuple[KVCache, ...]
    mask: jax.Array  # [B, 1, 1, S]


class Decoder(nn.Module):
    """Hidden states of the target, given the encoder's memory."""

    config: TransformerConfig
    remat: bool = False

    def setup(self) -> None:
        self.layers = [DecoderLayer(self.config) for _ in range(self.config.num_decoder_layers)]
        self.final_norm = final_norm(self.config)

    def _finish(self, x: jax.Array) -> jax.Array:
        return x if self.final_norm is None else self.final_norm(x)

    def __call__(
        self,
        x: jax.Array,
        memory: jax.Array,
        self_mask: jax.Array,
        memory_mask: jax.Array,
        *,
        deterministic: bool = True,
    ) -> jax.Array:
        """Hidden states [B, T, D] of embedded target x [B, T, D] and memory [B, S, D]."""
        inputs = memory, self_mask, memory_mask
        return self._finish(run_layers(self.layers, x, *inputs, remat=self.remat, deterministic=deterministic))

    def attention_weights(
        self, x: jax.Array, memory: jax.Array, self_mask: jax.Array, memory_mask: jax.Array
    ) -> jax.Array:
        weights = []
        for layer in self.layers:
            attend_self = partial(layer.self_attention, mask=self_mask)
            x, layer_weights = layer.with_weights(x, attend_self, layer.project_memory(memory), memory_mask)
            weights.append(layer_weights)
        return jnp.stack(weights)

    def start(self, memory: jax.Array, memory_mask: jax.Array) -> DecodeState:
        """The state before the first token: projected memory and no slots yet (see `DecodeState`)."""
        config = self.config
        slots = KVCache.empty(memory.shape[0], 0, config.num_heads, config.width_of_head, jnp.dtype(config.dtype))
        memories = tuple(layer.project_memory(memory) for layer in self.layers)
        return DecodeState((), Shared(memories, memory_mask), jnp.int32(0), slots=(slots,) * len(self.layers))

    def decode(
        self, x: jax.Array, state: DecodeState, biased: Callable[..., jax.Array]
    ) -> tuple[jax.Array, jax.Array, DecodeState]:
        """The hidden state of one embedded token x [B, W, D] per hypothesis, its attention, and the next state.

        The attention over the source, [B * W, S], is averaged over heads and layers. `biased` is that of positions.
        """
        width = x.shape[1]
        num_slots = state.slots[0].num_slots
        visible = visible_slots(num_slots // width, state.position, state.ancestry, width)
        visible = biased(visible, state.position[None, None], jnp.arange(num_slots)[None] // width)

        caches, weights = [], []
        for layer, cache, memory in zip(self.layers, state.slots, state.shared.memories, strict=True):
            x, layer_weights, cache = layer.decode(x, state.position, cache, visible, memory, state.shared.mask)
            caches.append(cache)
            weights.append(layer_weights.mean(axis=1).reshape(-1, layer_weights.shape[-1]))

        after = state._replace(slots=tuple(caches), position=state.position + 1)
        return self._finish(x), sum(weights) / len(weights), after
