"""The decoder, on whole sentences and one token at a time.

Its first layer reads the words so far; the attention is asked with its state; further layers and the output read that
state and the context found. With input feeding, the first layer also reads the context of the step before (Luong et
al. 2015, section 3.3), as the decoder of Bahdanau et al. 2015 does.

Shapes: B rows, S source and T target positions, D d_model, H hidden size, A attention size, C context (2 H),
W hypotheses, N = B * W.
"""

from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from flax_transformer.common.decode_state import DecodeState
from flax_transformer.ops.dense import Dense
from flax_transformer.ops.dropout import Dropout
from flax_transformer.rnn.attention import additive_energies, multiplicative_energies, weights_of
from flax_transformer.rnn.cells import GATES, State, advance, zero_state
from flax_transformer.rnn.config import RecurrentConfig
from flax_transformer.rnn.layers import RecurrentLayer, batch_first, begins, final_states, over_time, reset, run
from flax_transformer.rnn.recurrence import Times, recur


class Source(NamedTuple):
    """What the decoder reads of encoded sentences."""

    keys: jax.Array  # [B, S, A], to compare states with
    values: jax.Array  # [B, S, C], of which a context is the mean
    segments: jax.Array  # [B, S]


class Decoder(nn.Module):
    """Hidden states of the target, given the encoder's annotations."""

    config: RecurrentConfig

    def setup(self) -> None:
        config, dtype = self.config, jnp.dtype(self.config.dtype)
        width, context, attention = config.hidden_size, 2 * config.hidden_size, config.width_of_attention
        self.initial = Dense(context, width, dtype=dtype)
        layer = partial(RecurrentLayer, hidden_size=width, cell=config.cell, dtype=dtype)
        self.layers = [
            layer(width + context if number else config.d_model) for number in range(config.num_decoder_layers)
        ]
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
        """What is computed once of annotations [B, S, C] with segments [B, S]."""
        keys = annotations if self.config.attention == 'none' else self.key(annotations)
        return Source(keys, annotations, segments)

    def __call__(self, x: jax.Array, source: Source, segments: jax.Array, *, deterministic: bool = True) -> jax.Array:
        """Hidden [B, T, D] of embedded words x [B, T, D] with segments [B, T], all positions at once."""
        return self._run(x, source, segments, deterministic)[0]

    def look(self, x: jax.Array, source: Source, segments: jax.Array) -> jax.Array:
        """The attention [B, T, S] over the source."""
        return self._run(x, source, segments, True)[1]

    def _run(
        self, x: jax.Array, source: Source, segments: jax.Array, deterministic: bool
    ) -> tuple[jax.Array, jax.Array]:
        first = self.layers[0]
        summaries = final_states(source.values, source.segments, segments)
        start = over_time(begins(segments)), over_time(self._initial(summaries))
        mask = segments[:, :, None] == source.segments[:, None]
        xs = first.input(x)
        if self.config.attention != 'none' and self.config.input_feeding:
            h, context, weights = self._run_feeding(over_time(xs), start, mask, source)
        else:
            if self.config.input_feeding:
                xs = xs + self.feeding(summaries)
            h = batch_first(run(self.config.cell, {'0': first.recurrent.kernel}, {'0': (over_time(xs), *start)})['0'])
            context, weights = (
                (summaries, _ends(mask)) if self.config.attention == 'none' else self._attend(h, source, mask)
            )
        for layer in self.layers[1:]:
            h = layer(self.dropout(jnp.concatenate([h, context], axis=-1), deterministic=deterministic), segments)
        return self._output(h, context, x), weights

    def _initial(self, summaries: jax.Array) -> jax.Array:
        return jnp.tanh(self.initial(summaries))

    def _output(self, h: jax.Array, context: jax.Array, x: jax.Array) -> jax.Array:
        """tanh of state, context and previous word, without the maxout of Bahdanau et al. 2015."""
        return jnp.tanh(self.output(jnp.concatenate([h, context, x], axis=-1)))

    def _run_feeding(
        self, xs: jax.Array, start: tuple[jax.Array, jax.Array], mask: jax.Array, source: Source
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """h [B, T, H], contexts [B, T, C] and attention [B, T, S] of the first layer."""
        cell, dtype, is_additive = self.config.cell, xs.dtype, self.config.attention == 'additive'
        weights = {
            'recurrent': self.layers[0].recurrent.kernel,
            'feeding': self.feeding.kernel,
            'values': source.values,
        }
        if is_additive:
            weights['query'] = self.query.kernel
            constants = source.keys, self.vector
        else:
            weights['keys'] = source.keys
            constants = ()

        def step(times: Times, constants: Any, carry: tuple[State, jax.Array], x: Any) -> Any:
            state, context = carry
            of_word, is_first, initial, mask = x
            state = reset(state, is_first, initial)
            context = jnp.where(is_first[:, None], 0, context)
            of_input = of_word + times('feeding', context)
            state = advance(cell, of_input, times('recurrent', state[0].astype(dtype)), state)
            h = state[0].astype(dtype)
            if is_additive:
                q = times('query', h).astype(dtype)
                energies = jax.checkpoint(additive_energies)(q[:, None], *constants)
            else:
                energies = times('keys', h[:, None], 'BQA,BSA->BQS')
            attention = weights_of(energies, mask[:, None])
            context = times('values', attention.astype(dtype), 'BQS,BSC->BQC')[:, 0].astype(dtype)
            return (state, context), (h, context, attention[:, 0])

        batch = xs.shape[1]
        carry = zero_state(cell, batch, self.config.hidden_size), jnp.zeros((batch, source.values.shape[-1]), dtype)
        ys = recur(step, weights, constants, carry, (xs, *start, over_time(mask)))[1]
        return jax.tree.map(batch_first, ys)

    def _attend(self, h: jax.Array, source: Source, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Contexts [B, Q, C] and attention [B, Q, S] of states [B, Q, H]."""
        if self.config.attention == 'additive':
            energies = jax.checkpoint(additive_energies)(self.query(h), source.keys, self.vector)
        else:
            energies = multiplicative_energies(h, source.keys)
        weights = weights_of(energies, mask)
        return jnp.einsum('BQS,BSC->BQC', weights.astype(h.dtype), source.values), weights

    def start(self, source: Source) -> DecodeState:
        """The state before the first token."""
        summaries = final_states(source.values, source.segments, jnp.ones_like(source.segments[:, :1]))
        zeros = zero_state(self.config.cell, summaries.shape[0], self.config.hidden_size)
        states = [zeros for _ in self.layers]
        states[0] = (self._initial(summaries)[:, 0].astype(jnp.float32), *zeros[1:])
        context = jnp.zeros_like(summaries[:, 0])
        if self.config.attention == 'none':
            context = summaries[:, 0]
        return DecodeState((tuple(states), context), source, jnp.int32(0))

    def decode(self, x: jax.Array, state: DecodeState) -> tuple[jax.Array, jax.Array, DecodeState]:
        """Hidden [N, D] of one embedded token x [N, D] of each hypothesis, its attention over the source, [N, S], and
        the state after it."""
        (states, context), source, first = state.cache, state.shared, self.layers[0]
        of_input = first.input(x)
        if self.config.input_feeding:
            of_input = of_input + self.feeding(context)
        after = [advance(self.config.cell, of_input, first.recurrent(states[0][0]), states[0])]
        h = after[0][0].astype(x.dtype)
        mask = source.segments[:, None] > 0
        if self.config.attention == 'none':
            weights = jnp.repeat(_ends(mask)[:, 0], x.shape[0] // mask.shape[0], axis=0)
        else:
            # The W hypotheses of a sentence are compared as W positions would be: nothing is copied per beam.
            context, weights = self._attend(h.reshape(mask.shape[0], -1, h.shape[-1]), source, mask)
            context, weights = (y.reshape(-1, y.shape[-1]) for y in (context, weights))
        for layer, before in zip(self.layers[1:], states[1:], strict=True):
            after.append(layer.step(jnp.concatenate([h, context], axis=-1), before))
            h = after[-1][0].astype(x.dtype)
        state = state._replace(cache=(tuple(after), context), position=state.position + 1)
        return self._output(h, context, x), weights, state


def _ends(mask: jax.Array) -> jax.Array:
    """What `final_states` reads, as attention [B, T, S]: half of the first and half of the last visible position."""
    size = mask.shape[-1]
    first, last = jnp.argmax(mask, axis=-1), size - 1 - jnp.argmax(mask[..., ::-1], axis=-1)
    return (jax.nn.one_hot(first, size) + jax.nn.one_hot(last, size)) / 2
