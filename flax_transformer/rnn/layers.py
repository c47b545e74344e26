"""Recurrent layers over sentences in rows, in one direction or both, and one step of their cells.

Cells are those of Hochreiter and Schmidhuber 1997 (LSTM) and Cho et al. 2014 (GRU).
Segments [B, T] number the sentences of a row from 1; 0 is padding. A mask will do where a row is one sentence.
"""

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from flax_transformer.ops.dense import Dense

from .recurrence import Times, recur, times

State = tuple[jax.Array, ...]  # float32 [B, H]: (h, c) of an LSTM, (h,) of a GRU; h is what others read

GATES = {'lstm': 4, 'gru': 3}


class RecurrentLayer(nn.Module):
    """An LSTM or a GRU."""

    inputs: int
    hidden_size: int
    cell: str = 'lstm'
    dtype: jnp.dtype = jnp.float32

    def setup(self) -> None:
        width = GATES[self.cell] * self.hidden_size
        by_gate = partial(_orthogonal_by_gate, GATES[self.cell])
        self.input = Dense(self.inputs, width, dtype=self.dtype, kernel_init=nn.initializers.lecun_uniform())
        self.recurrent = Dense(self.hidden_size, width, use_bias=False, dtype=self.dtype, kernel_init=by_gate)

    def __call__(self, x: jax.Array, segments: jax.Array) -> jax.Array:
        """h [B, T, H] of x [B, T, D], from left to right; a sentence begins with a state of zeros."""
        xs = {'recurrent': (over_time(self.input(x)), over_time(begins(segments)))}
        return batch_first(run(self.cell, {'recurrent': self.recurrent.kernel}, xs)['recurrent']).astype(self.dtype)

    def step(self, from_input: jax.Array, state: State) -> State:
        """The state after one more position, from the products [N, G * H] of its input."""
        from_state = times(self.recurrent.kernel, state[0].astype(self.dtype))
        return advance(self.cell, from_input, from_state, state)


class BidirectionalLayer(nn.Module):
    """Two layers, one from left to right, one from right to left, side by side (Schuster and Paliwal 1997)."""

    inputs: int
    hidden_size: int
    cell: str = 'lstm'
    dtype: jnp.dtype = jnp.float32

    def setup(self) -> None:
        sizes = self.inputs, self.hidden_size, self.cell, self.dtype
        self.forward, self.backward = RecurrentLayer(*sizes), RecurrentLayer(*sizes)

    def __call__(self, x: jax.Array, segments: jax.Array) -> jax.Array:
        """[B, T, 2 H] of x [B, T, D]: what both directions know at each position of its sentence; zeros at padding."""
        # Both directions in one scan: on CPUs their products run at the same time.
        backwards = segments[:, ::-1]
        xs = {
            'forward': (over_time(self.forward.input(x)), over_time(begins(segments))),
            'backward': (over_time(self.backward.input(x))[::-1], over_time(begins(backwards))),
        }
        weights = {'forward': self.forward.recurrent.kernel, 'backward': self.backward.recurrent.kernel}
        ys = run(self.cell, weights, xs)
        both = batch_first(jnp.concatenate([ys['forward'], ys['backward'][::-1]], axis=-1))
        return jnp.where((segments > 0)[:, :, None], both, 0).astype(self.dtype)


def run(cell: str, weights: dict[str, Any], xs: dict[str, tuple[jax.Array, ...]]) -> dict[str, jax.Array]:
    """h [T, B, H] of layers that run side by side, by name.

    `xs`: the products [T, B, G * H] of inputs, where sentences begin [T, B], and their first h [T, B, H] unless zeros.
    """

    def step(times: Times, _: Any, states: dict[str, State], xs: Any) -> tuple[dict[str, State], dict[str, jax.Array]]:
        after = {}
        ys = {}
        for name, (from_input, *start) in xs.items():
            state = reset(states[name], *start)
            from_state = times(name, state[0].astype(from_input.dtype))
            after[name] = advance(cell, from_input, from_state, state)
            ys[name] = after[name][0].astype(from_input.dtype)
        return after, ys

    _, batch, width = next(iter(xs.values()))[0].shape
    states = {name: zero_state(cell, batch, width // GATES[cell]) for name in xs}
    return recur(step, weights, (), states, xs)[1]


def reset(state: State, is_first: jax.Array, h: jax.Array | float = 0.0) -> State:
    """The state, reset where a sentence begins [B]: h to a given one [B, H], the cell to 0."""
    initial = (h, 0.0)[: len(state)]
    return tuple(jnp.where(is_first[:, None], new, old) for new, old in zip(initial, state, strict=True))


def begins(segments: jax.Array) -> jax.Array:
    """Where a sentence, or padding, begins in rows with segments [B, T].

    >>> begins(jnp.array([[1, 1, 2, 2, 0]])).astype(int).tolist()
    [[1, 0, 1, 0, 1]]
    """
    return jnp.diff(segments.astype(jnp.int32), axis=1, prepend=-1) != 0


def final_states(both: jax.Array, segments: jax.Array, asked: jax.Array) -> jax.Array:
    """[B, T, 2 H]: what each direction knows at its end of a sentence, of the results [B, S, 2 H] of both.

    The left half at the last position, the right half at the first. `segments` [B, S] are those of the results, `asked`
    [B, T] those that are asked for: ones [B, 1] where a row is one sentence.
    """
    is_same = asked[:, :, None] == segments[:, None, :]
    first = jnp.argmax(is_same, axis=2)
    last = segments.shape[1] - 1 - jnp.argmax(is_same[:, :, ::-1], axis=2)
    # float32: the gradient adds up what all positions of a sentence read at its end.
    left, right = jnp.split(both.astype(jnp.float32), 2, axis=-1)
    ends = [jnp.take_along_axis(x, index[:, :, None], axis=1) for x, index in ((left, last), (right, first))]
    return jnp.concatenate(ends, axis=-1).astype(both.dtype)


def over_time(x: jax.Array) -> jax.Array:
    """[T, B, ...] from [B, T, ...], and back."""
    return jnp.swapaxes(x, 0, 1)


batch_first = over_time


def _orthogonal_by_gate(gates: int, key: jax.Array, shape: tuple[int, int], dtype: jnp.dtype) -> jax.Array:
    """A matrix [H, G * H] that is orthogonal for each gate (Saxe et al. 2014)."""
    square = (shape[0], shape[1] // gates)
    make = nn.initializers.orthogonal()
    return jnp.concatenate([make(own, square, dtype) for own in jax.random.split(key, gates)], axis=1)


def zero_state(cell: str, batch: int, hidden_size: int) -> State:
    """The state [B, H] before a sentence."""
    return (jnp.zeros((batch, hidden_size), jnp.float32),) * (2 if cell == 'lstm' else 1)


def advance(cell: str, from_input: jax.Array, from_state: jax.Array, state: State) -> State:
    """The state after a step, from the products [B, G * H] of the input, with the bias, and of h."""
    if cell == 'lstm':
        i, f, g, o = jnp.split(from_input + from_state, 4, axis=-1)
        c = jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
        return jax.nn.sigmoid(o) * jnp.tanh(c), c
    # The reset gate acts after the product, as in cuDNN: one product instead of two, one after the other.
    (reset, update, new), (from_reset, from_update, from_new) = (
        jnp.split(x, 3, axis=-1) for x in (from_input, from_state)
    )
    new = jnp.tanh(new + jax.nn.sigmoid(reset + from_reset) * from_new)
    update = jax.nn.sigmoid(update + from_update)
    return ((1 - update) * new + update * state[0],)
