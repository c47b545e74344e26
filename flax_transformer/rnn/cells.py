"""One step of an LSTM or a GRU, given its products (Hochreiter and Schmidhuber 1997; Cho et al. 2014).

Shapes: B batch, H hidden size, G gates, 4 of an LSTM and 3 of a GRU.
"""

import jax
import jax.numpy as jnp

State = tuple[jax.Array, ...]  # float32 [B, H]: (h, c) of an LSTM, (h,) of a GRU; h is what others read

GATES = {'lstm': 4, 'gru': 3}


def zero_state(cell: str, batch: int, hidden_size: int) -> State:
    """The state [B, H] before a sentence."""
    return (jnp.zeros((batch, hidden_size), jnp.float32),) * (2 if cell == 'lstm' else 1)


def advance(cell: str, of_input: jax.Array, of_state: jax.Array, state: State) -> State:
    """The state after a step, from the products of the input, with the bias, and of h with the weights, [B, G * H]."""
    if cell == 'lstm':
        i, f, g, o = jnp.split(of_input + of_state, 4, axis=-1)
        c = jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
        return jax.nn.sigmoid(o) * jnp.tanh(c), c
    # The reset gate acts after the product, as in cuDNN: one product instead of two, one after the other.
    (reset, update, new), (from_reset, from_update, from_new) = (jnp.split(x, 3, axis=-1) for x in (of_input, of_state))
    new = jnp.tanh(new + jax.nn.sigmoid(reset + from_reset) * from_new)
    update = jax.nn.sigmoid(update + from_update)
    return ((1 - update) * new + update * state[0],)
