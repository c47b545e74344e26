"""The attention RNN: source and target ids in, logits out (Bahdanau et al. 2015, figure 1).

The decoder's first layer reads the words so far, and its state queries the source for a context; further layers and the
output read both. With input feeding, the first layer also reads the context before. One layer is the decoder of the
paper, except that the state has read the previous word when it queries the source.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from flax_transformer.common.trees import DecodeState
from flax_transformer.ops.dense import Dense
from flax_transformer.ops.dropout import Dropout
from flax_transformer.ops.embedding import Embeddings
from flax_transformer.ops.flops import Flops
from flax_transformer.ops.product import product, resolve_dtype

from .config import RecurrentConfig
from .layers import (
    GATES,
    BidirectionalLayer,
    RecurrentLayer,
    State,
    advance,
    batch_first,
    begins,
    final_states,
    over_time,
    reset,
    run,
    zero_state,
)
from .recurrence import Times, recur


@jax.checkpoint  # tanh is recomputed in the backward pass: [B, Q, S, A] is much more than all else
def additive_energies(q: jax.Array, k: jax.Array, vector: jax.Array) -> jax.Array:
    """vector . tanh(q + k), float32 [B, Q, S], of queries [B, Q, A] and keys [B, S, A] (Bahdanau et al. 2015, A.1)."""
    # float32, so that gradients are summed in it.
    hidden = (q.astype(jnp.float32)[:, :, None] + k.astype(jnp.float32)[:, None]).astype(q.dtype)
    return product(jnp.tanh(hidden), vector[:, None], dtype=jnp.float32)[..., 0]


def additive_energies_by_query(q: jax.Array, k: jax.Array, vector: jax.Array) -> jax.Array:
    """`additive_energies`, with one query of each row in memory at once."""
    k = k.astype(jnp.float32)  # its gradients are then summed in float32 over the queries

    def energies_of(q: jax.Array) -> jax.Array:
        return additive_energies(q[:, None], k, vector)[:, 0]

    return jnp.swapaxes(jax.lax.map(energies_of, jnp.swapaxes(q, 0, 1)), 0, 1)


def attention_weights(energies: jax.Array, mask: jax.Array) -> jax.Array:
    """softmax over the positions that the mask shows [B, Q, S]; equal weights, not NaN, where it shows none."""
    return jax.nn.softmax(jnp.where(mask, energies, jnp.finfo(jnp.float32).min), axis=-1)


class Source(NamedTuple):
    keys: jax.Array  # [B, S, A], to compare states with
    values: jax.Array  # [B, S, C], whose weighted mean is a context
    segments: jax.Array  # [B, S]


class Decoder(nn.Module):
    config: RecurrentConfig

    def setup(self) -> None:
        config = self.config
        dtype = jnp.dtype(config.dtype)
        width = config.hidden_size
        context = 2 * width
        attention = config.width_of_attention
        self.initial = Dense(context, width, dtype=dtype)
        inputs = [config.d_model, *[width + context] * (config.num_decoder_layers - 1)]
        self.layers = [RecurrentLayer(size, width, config.cell, dtype) for size in inputs]
        if config.input_feeding:
            self.feeding = Dense(context, GATES[config.cell] * width, use_bias=False, dtype=dtype)
        if config.attention == 'additive':
            self.query = Dense(width, attention, use_bias=False, dtype=dtype)
            self.vector = self.param('vector', nn.initializers.normal(attention**-0.5), (attention,), jnp.float32)
        if config.attention != 'none':
            self.key = Dense(context, attention, use_bias=config.attention == 'additive', dtype=dtype)
        self.output = Dense(width + context + config.d_model, config.d_model, dtype=dtype)
        self.dropout = Dropout(config.dropout_rate)

    def read(self, annotations: jax.Array, segments: jax.Array) -> Source:
        keys = annotations if self.config.attention == 'none' else self.key(annotations)
        return Source(keys, annotations, segments)

    def __call__(self, x: jax.Array, source: Source, segments: jax.Array, *, deterministic: bool = True) -> jax.Array:
        """Hidden [B, T, D] of embedded words x [B, T, D] with segments [B, T]."""
        h, context, _ = self.first_layer(x, source, segments)
        for layer in self.layers[1:]:
            below = jnp.concatenate([h, context], axis=-1)
            h = layer(self.dropout(below, deterministic=deterministic), segments)
        return self._output(h, context, x)

    def first_layer(self, x: jax.Array, source: Source, segments: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """h [B, T, H], the contexts [B, T, C] that it asks for, and the attention [B, T, S]."""
        config = self.config
        layer = self.layers[0]
        ends = final_states(source.values, source.segments, segments)
        mask = segments[:, :, None] == source.segments[:, None]
        from_words = layer.input(x)
        start = (over_time(begins(segments)), over_time(self._first_h(ends)))
        if config.input_feeding and config.attention != 'none':
            return self._feed(over_time(from_words), start, mask, source)
        if config.input_feeding:
            from_words = from_words + self.feeding(ends)
        h = run(config.cell, {'first': layer.recurrent.kernel}, {'first': (over_time(from_words), *start)})
        h = batch_first(h['first'])
        if config.attention == 'none':
            return h, ends, _at_ends(mask)
        return h, *self._attend(h, source, mask, additive_energies_by_query)

    def _first_h(self, ends: jax.Array) -> jax.Array:
        return jnp.tanh(self.initial(ends))

    def _output(self, h: jax.Array, context: jax.Array, x: jax.Array) -> jax.Array:
        """With tanh for the maxout of Bahdanau et al. 2015."""
        return jnp.tanh(self.output(jnp.concatenate([h, context, x], axis=-1)))

    def _feed(
        self, from_words: jax.Array, start: tuple[jax.Array, jax.Array], mask: jax.Array, source: Source
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """As `first_layer`, with input feeding: the attention is part of the scan.

        Takes the products [T, B, G * H] of the words, where a sentence begins [T, B], and its first h [T, B, H].
        """
        config = self.config
        dtype = from_words.dtype
        weights = {'recurrent': self.layers[0].recurrent.kernel, 'feeding': self.feeding.kernel}
        weights['values'] = source.values
        constants = ()
        if config.attention == 'additive':
            weights['query'] = self.query.kernel
            constants = source.keys.astype(jnp.float32), self.vector  # their gradients are summed over time in float32
        else:
            weights['keys'] = source.keys

        def energies(times: Times, constants: Any, h: jax.Array) -> jax.Array:
            if config.attention == 'multiplicative':
                return times('keys', h[:, None], 'BQA,BSA->BQS')
            keys, vector = constants
            q = times('query', h).astype(dtype)
            return additive_energies(q[:, None], keys, vector)

        def step(times: Times, constants: Any, carry: tuple[State, jax.Array], x: Any) -> Any:
            state, context = carry
            from_word, is_first, first_h, mask = x
            state = reset(state, is_first, first_h)
            context = jnp.where(is_first[:, None], 0, context)
            from_state = times('recurrent', state[0].astype(dtype))
            state = advance(config.cell, from_word + times('feeding', context), from_state, state)
            h = state[0].astype(dtype)
            attention = attention_weights(energies(times, constants, h), mask[:, None])
            context = times('values', attention.astype(dtype), 'BQS,BSC->BQC')[:, 0].astype(dtype)
            return (state, context), (h, context, attention[:, 0])

        batch = from_words.shape[1]
        width = source.values.shape[-1]
        carry = zero_state(config.cell, batch, config.hidden_size), jnp.zeros((batch, width), dtype)
        ys = recur(step, weights, constants, carry, (from_words, *start, over_time(mask)))[1]
        return jax.tree.map(batch_first, ys)

    def _attend(
        self, h: jax.Array, source: Source, mask: jax.Array, additive: Callable[..., jax.Array] = additive_energies
    ) -> tuple[jax.Array, jax.Array]:
        """Contexts [B, Q, C] and attention [B, Q, S] of h [B, Q, H]."""
        if self.config.attention == 'additive':
            energies = additive(self.query(h), source.keys, self.vector)
        else:
            # Luong et al. 2015, eq. 8.
            energies = jnp.einsum('BQA,BSA->BQS', h, source.keys, preferred_element_type=jnp.float32)
        weights = attention_weights(energies, mask)
        values = source.values
        sums = jnp.einsum('BQS,BSC->BQC', weights.astype(values.dtype), values, preferred_element_type=jnp.float32)
        return sums.astype(values.dtype), weights

    def start(self, source: Source) -> DecodeState:
        ends = final_states(source.values, source.segments, jnp.ones_like(source.segments[:, :1]))[:, 0]
        zeros = zero_state(self.config.cell, ends.shape[0], self.config.hidden_size)
        states = ((self._first_h(ends).astype(jnp.float32), *zeros[1:]), *[zeros] * (len(self.layers) - 1))
        context = ends if self.config.attention == 'none' else jnp.zeros_like(ends)
        return DecodeState((states, context), source, jnp.int32(0))

    def decode(self, x: jax.Array, state: DecodeState) -> tuple[jax.Array, jax.Array, DecodeState]:
        """Hidden [N, D] of one token x [N, D] of each hypothesis, its attention [N, S], and the next state."""
        states, context = state.cache
        source = state.shared
        layer = self.layers[0]
        from_input = layer.input(x)
        if self.config.input_feeding:
            from_input = from_input + self.feeding(context)
        after = [layer.step(from_input, states[0])]
        h = after[0][0].astype(x.dtype)
        sentences = source.segments.shape[0]
        asked = h.reshape(sentences, -1, h.shape[-1])  # W hypotheses are W positions here: no source is copied for each
        mask = jnp.broadcast_to(source.segments[:, None] > 0, (*asked.shape[:2], source.segments.shape[1]))
        if self.config.attention == 'none':
            weights = _at_ends(mask)
        else:
            context, weights = self._attend(asked, source, mask)
            context = context.reshape(-1, context.shape[-1])
        for layer, before in zip(self.layers[1:], states[1:], strict=True):
            after.append(layer.step(layer.input(jnp.concatenate([h, context], axis=-1)), before))
            h = after[-1][0].astype(x.dtype)
        state = state._replace(cache=(tuple(after), context), position=state.position + 1)
        return self._output(h, context, x), weights.reshape(-1, weights.shape[-1]), state


def _at_ends(mask: jax.Array) -> jax.Array:
    """What `final_states` reads, as attention: half of the first and half of the last visible position."""
    size = mask.shape[-1]
    first = jnp.argmax(mask, axis=-1)
    last = size - 1 - jnp.argmax(mask[..., ::-1], axis=-1)
    return (jax.nn.one_hot(first, size) + jax.nn.one_hot(last, size)) / 2


class AttentionRNN(nn.Module):
    config: RecurrentConfig
    remat: bool = False  # keep only each layer's input for the backward pass and recompute the rest: less memory
    platform: str | None = None  # what it is compiled for; None: JAX's default

    max_positions = None  # any length
    supports_int8 = True  # parameters may be `Int8`

    def setup(self) -> None:
        config = resolve_dtype(self.config, self.platform)  # the layers get the resolved config
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

        def call(layer: BidirectionalLayer, x: jax.Array) -> jax.Array:
            return layer(x, segments)

        call = nn.remat(call) if self.remat else call
        for layer in self.encoder:
            x = self.dropout(call(layer, x), deterministic=deterministic)
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
        """The hidden states [B, T, D] that `project` takes; without segments, a row is one sentence."""
        del source_positions, target_positions
        read = self.read(source, source_segments, deterministic=deterministic)
        segments = jnp.ones_like(target_in) if target_segments is None else target_segments

        def call(decoder: Decoder, x: jax.Array, read: Source) -> jax.Array:
            return decoder(x, read, segments, deterministic=deterministic)

        call = nn.remat(call) if self.remat else call
        x = self.dropout(self.embeddings.target(target_in), deterministic=deterministic)
        x = call(self.decoder, x, read)
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
    tokens = jnp.zeros((1, 1), jnp.int32)
    return jax.jit(AttentionRNN(config).init)(key, tokens, tokens)['params']


def forward_flops(model: RecurrentConfig, source: int, target: int) -> Flops:
    """FLOPs of the forward pass over one row with `source` and `target` slots."""
    hidden = model.hidden_size
    width = model.width_of_attention
    d_model = model.d_model
    gates = GATES[model.cell] * hidden
    context = 2 * hidden
    has_attention = model.attention != 'none'
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
