"""The decoder, on whole sentences and one token at a time (Vaswani et al. 2017, section 3.1, figure 1 right)."""

from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from flax_transformer.common.trees import DecodeState
from flax_transformer.transformer.attention import MultiHeadAttention
from flax_transformer.transformer.cache import KVCache, visible_slots
from flax_transformer.transformer.config import TransformerConfig
from flax_transformer.transformer.layers import FeedForward, Residual, final_norm

Memory = tuple[jax.Array, jax.Array]  # keys and values [B, S, H, K] of the source for one layer's cross-attention


class DecoderLayer(nn.Module):
    """Masked self-attention, attention over the encoder's memory, feed-forward."""

    config: TransformerConfig

    def setup(self) -> None:
        self.self_attention = MultiHeadAttention.of(self.config)
        self.self_residual = Residual.of(self.config)
        self.cross_attention = MultiHeadAttention.of(self.config)
        self.cross_residual = Residual.of(self.config)
        self.feed_forward = FeedForward.of(self.config)
        self.feed_forward_residual = Residual.of(self.config)

    def _sublayers(
        self,
        x: jax.Array,
        attend_self: Callable[[jax.Array], jax.Array],
        attend_memory: Callable[[jax.Array], jax.Array],
        deterministic: bool,
    ) -> jax.Array:
        x = self.self_residual(x, attend_self, deterministic=deterministic)
        x = self.cross_residual(x, attend_memory, deterministic=deterministic)
        transform = lambda x: self.feed_forward(x, deterministic=deterministic)
        return self.feed_forward_residual(x, transform, deterministic=deterministic)

    def project_memory(self, memory: jax.Array) -> Memory:
        return self.cross_attention.project_memory(memory)

    def __call__(
        self,
        x: jax.Array,
        memory: Memory,
        self_mask: jax.Array,
        memory_mask: jax.Array,
        *,
        deterministic: bool = True,
        seen: list[jax.Array] | None = None,
    ) -> jax.Array:
        """Returns x [B, T, D] after the layer, all positions at once; adds attention over the memory to `seen`."""
        attend_self = lambda x: self.self_attention(x, x, self_mask, deterministic=deterministic)

        def attend_memory(x: jax.Array) -> jax.Array:
            if seen is not None:
                seen.append(self.cross_attention.weights(x, memory[0], memory_mask))
            return self.cross_attention.attend(x, *memory, memory_mask, deterministic)

        return self._sublayers(x, attend_self, attend_memory, deterministic)

    def decode(
        self, x: jax.Array, cache: KVCache, visible: jax.Array, memory: KVCache, shared: 'Shared', position: jax.Array
    ) -> tuple[jax.Array, KVCache, jax.Array]:
        """Returns one new position x [B, W, D] after the layer, the cache with it, and its attention [B, H, W, S]."""
        written, seen = [], []

        def attend_self(x: jax.Array) -> jax.Array:
            out, longer = self.self_attention.decode(x, cache, position, visible)
            written.append(longer)
            return out

        def attend_memory(x: jax.Array) -> jax.Array:
            # The W hypotheses of a sentence query its memory as W positions would: nothing is copied per beam.
            out, weights = self.cross_attention.attend_cached(x, memory, shared.mask)
            seen.append(weights)
            return out

        x = self._sublayers(x, attend_self, attend_memory, True)
        return x, written[0], seen[0]


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
        return self.final_norm(x) if self.final_norm is not None else x

    def __call__(
        self,
        x: jax.Array,
        memory: jax.Array,
        self_mask: jax.Array,
        memory_mask: jax.Array,
        *,
        deterministic: bool = True,
    ) -> jax.Array:
        """Returns hidden states [B, T, D] of embedded target x [B, T, D] and memory [B, S, D]."""

        def run(layer: DecoderLayer, x: jax.Array, memory: jax.Array, *masks: jax.Array) -> jax.Array:
            return layer(x, layer.project_memory(memory), *masks, deterministic=deterministic)

        for layer in self.layers:
            x = (nn.remat(run) if self.remat else run)(layer, x, memory, self_mask, memory_mask)
        return self._finish(x)

    def attention_weights(
        self, x: jax.Array, memory: jax.Array, self_mask: jax.Array, memory_mask: jax.Array
    ) -> jax.Array:
        """Returns each layer's attention over the memory, [layers, B, H, T, S]."""
        seen = []
        for layer in self.layers:
            x = layer(x, layer.project_memory(memory), self_mask, memory_mask, seen=seen)
        return jnp.stack(seen)

    def start(self, memory: jax.Array, memory_mask: jax.Array) -> DecodeState:
        """Returns the state before the first token: projected memory and no slots yet (see `DecodeState`)."""
        config = self.config
        slots = KVCache.empty(memory.shape[0], 0, config.num_heads, config.width_of_head, jnp.dtype(config.dtype))
        memories = tuple(KVCache.packed(*layer.project_memory(memory)) for layer in self.layers)
        return DecodeState((), Shared(memories, memory_mask), jnp.int32(0), slots=(slots,) * len(self.layers))

    def decode(self, x: jax.Array, state: DecodeState) -> tuple[jax.Array, jax.Array, DecodeState]:
        """The hidden state of one embedded token x [B, W, D] per hypothesis, its attention, and the next state.

        The attention over the source, [B * W, S], is averaged over heads and layers. jit drops what the caller does not
        use.
        """
        visible = visible_slots(state.slots[0].num_slots // x.shape[1], state.position, state.ancestry, x.shape[1])
        written, seen = [], []
        for layer, cache, memory in zip(self.layers, state.slots, state.shared.memories, strict=True):
            x, cache, weights = layer.decode(x, cache, visible, memory, state.shared, state.position)
            written.append(cache)
            seen.append(weights.mean(axis=1).reshape(-1, weights.shape[-1]))
        after = state._replace(slots=tuple(written), position=state.position + 1)
        return self._finish(x), sum(seen) / len(seen), after
