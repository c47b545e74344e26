"""The attention RNN: source and target ids in, logits out (Bahdanau et al. 2015, figure 1).

It has the methods that `tasks.translation.model` names.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from flax_transformer.common.trees import DecodeState
from flax_transformer.ops.dropout import Dropout
from flax_transformer.ops.embedding import Embeddings
from flax_transformer.ops.flops import Flops
from flax_transformer.ops.product import resolve_dtype

from .config import RecurrentConfig
from .decoder import Decoder, Source
from .layers import GATES, BidirectionalLayer


class AttentionRNN(nn.Module):
    config: RecurrentConfig
    remat: bool = False  # keep only each layer's input for the backward pass and recompute the rest: less memory

    max_positions = None  # any length
    supports_int8 = True  # parameters may be `Quantized`

    def setup(self) -> None:
        config = resolve_dtype(self.config)  # the layers get the resolved config
        dtype = jnp.dtype(config.dtype)
        self.embeddings = Embeddings(config, dtype=dtype)
        nn.share_scope(self, self.embeddings)
        widths = [config.d_model, *[2 * config.hidden_size] * (config.num_encoder_layers - 1)]
        self.encoder = [BidirectionalLayer(width, config.hidden_size, config.cell, dtype) for width in widths]
        self.decoder = Decoder(config)
        self.dropout = Dropout(config.dropout_rate)

    def __call__(self, source: jax.Array, target_in: jax.Array, **keywords: Any) -> jax.Array:
        return self.project(self.hidden(source, target_in, **keywords))

    def read(self, source: jax.Array, segments: jax.Array | None = None, *, deterministic: bool = True) -> Source:
        """What the encoder makes of source ids [B, S]; packed rows come with segments [B, S] (from 1; 0 is padding)."""
        segments = (source != self.config.pad_id).astype(jnp.int32) if segments is None else segments
        x = self.dropout(self.embeddings.source(source), deterministic=deterministic)
        run = lambda layer, x: layer(x, segments)
        for layer in self.encoder:
            x = self.dropout((nn.remat(run) if self.remat else run)(layer, x), deterministic=deterministic)
        return self.decoder.read(x, segments)

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
        """The hidden states [B, T, D] that `project` takes, of source ids [B, S] and decoder inputs [B, T].

        Without segments, a row is one sentence.
        """
        del source_positions, target_positions
        read = self.read(source, source_segments, deterministic=deterministic)
        segments = jnp.ones_like(target_in) if target_segments is None else target_segments
        run = lambda decoder, x, read: decoder(x, read, segments, deterministic=deterministic)
        x = self.dropout(self.embeddings.target(target_in), deterministic=deterministic)
        x = (nn.remat(run) if self.remat else run)(self.decoder, x, read)
        return self.dropout(x, deterministic=deterministic)

    def project(self, x: jax.Array) -> jax.Array:
        return self.embeddings.logits(x)

    def cross_attention(self, source: jax.Array, target_in: jax.Array) -> jax.Array:
        """The attention [1, B, 1, T, S]; without one, half to the first and half to the last word, which are read."""
        x = self.embeddings.target(target_in)
        _, _, attention = self.decoder.first_layer(x, self.read(source), jnp.ones_like(target_in))
        return attention[None, :, None]

    def start(self, source: jax.Array) -> DecodeState:
        return self.decoder.start(self.read(source))

    def decode(self, tokens: jax.Array, state: DecodeState) -> tuple[jax.Array, DecodeState]:
        logits, _, state = self.decode_with_attention(tokens, state)
        return logits, state

    def decode_with_attention(self, tokens: jax.Array, state: DecodeState) -> tuple[jax.Array, jax.Array, DecodeState]:
        """As `decode`, with the attention [N, S] over the source in between."""
        x, weights, state = self.decoder.decode(self.embeddings.target(tokens), state)
        return self.project(x), weights, state


def init_params(config: RecurrentConfig, key: jax.Array) -> Any:
    """Fresh float32 parameters, from one compiled program."""
    tokens = jnp.zeros((1, 1), jnp.int32)
    return jax.jit(AttentionRNN(config).init)(key, tokens, tokens)['params']


def forward_flops(model: RecurrentConfig, source: int, target: int) -> Flops:
    """FLOPs of the forward pass over one row with `source` and `target` slots."""
    hidden, width, d_model = model.hidden_size, model.width_of_attention, model.d_model
    gates, context, has_attention = GATES[model.cell] * hidden, 2 * hidden, model.attention != 'none'
    layers = [d_model, *[context] * (model.num_encoder_layers - 1)]
    encoder = 2 * sum(2 * gates * (inputs + hidden) for inputs in layers)
    decoder = 2 * gates * (d_model + hidden) + 2 * context * hidden  # the first layer and its initial state
    decoder += (model.num_decoder_layers - 1) * 2 * gates * (hidden + context + hidden)
    decoder += 2 * (hidden + context + d_model) * d_model  # the layer before the logits
    if model.input_feeding:
        decoder += 2 * context * gates
    if model.attention == 'additive':
        decoder += 2 * hidden * width
    return Flops(
        encoder=source * encoder,
        decoder=target * decoder + has_attention * source * 2 * context * width,
        attention=has_attention * target * source * 2 * (width + context),
        logits=target * 2 * d_model * model.vocab_size_of_target,
    )


# The end of a parameter's path, and the mesh axis of each dimension; the first match counts.
SHARDING_RULES: tuple[tuple[str, P], ...] = (
    # Pieces over tensor, so that each device computes the logits of its own only.
    (r'embedding/table', P('tensor', 'fsdp')),
    (r'projection', P('fsdp', 'tensor')),
    (r'logits_bias', P('tensor')),
    # Products outside of the scans.
    (r'(input|initial|key|output)/kernel', P('fsdp', None)),
    # Products of each step.
    (r'(recurrent|feeding|query)/kernel', P()),
    # Vectors: too small to split.
    (r'(input|initial|key|output)/bias', P()),
    (r'vector', P()),
)
