"""Late gradients of weights against those that JAX finds by itself."""

import jax
import jax.numpy as jnp
import numpy as np

from flax_transformer.rnn.recurrence import recur, times

T, B, S, H = 5, 3, 4, 6


def step(times, shift, state, x):
    """A state that reads its input, itself and a mean of values."""
    of_input, is_first = x
    state = jnp.where(is_first[:, None], 0.5, state)
    weights = jax.nn.softmax(times('query', state))
    context = times('values', weights[:, None], 'BQS,BSH->BQH')[:, 0]
    state = jnp.tanh(of_input + times('recurrent', state) + context * shift[None])
    return state, (state, weights)


def plain(step, weights, constants, state, xs):
    body = lambda state, x: step(lambda name, *rest: times(weights[name], *rest), constants, state, x)
    return jax.lax.scan(body, state, xs)


def test_gradients_are_those_of_a_plain_scan() -> None:
    draw = np.random.default_rng(0).normal
    weights = {'recurrent': draw(size=(H, H)), 'query': draw(size=(H, S)), 'values': draw(size=(B, S, H))}
    floats = weights, draw(size=H), draw(size=(B, H)), draw(size=(T, B, H))
    floats = jax.tree.map(np.float32, floats)
    is_first = np.zeros((T, B), bool)
    is_first[3, 1] = True

    def loss(scan, weights, shift, state, xs):
        state, (states, attention) = scan(step, weights, shift, state, (xs, is_first))
        return (state[None] * states * attention[..., :1]).sum()

    both = jax.jit(lambda floats: [jax.value_and_grad(loss, (1, 2, 3, 4))(scan, *floats) for scan in (recur, plain)])
    ours, expected = jax.device_get(both(floats))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), ours, expected)
    assert np.abs(ours[1][0]['values']).max() > 0.01


def test_in_bfloat16_weights_get_sums_in_float32() -> None:
    """2,000 gradients of 1/256 add up to 7.8; in bfloat16 the sum would stop at 1."""

    def step(times, _, state, x):
        return state, times('weight', x)

    def loss(weight):
        return recur(step, {'weight': weight}, (), (), jnp.ones((2000, 1, 1), jnp.bfloat16))[1].sum() / 256

    gradient = jax.jit(jax.grad(loss))(np.ones((1, 1), np.float32))
    assert gradient.dtype == jnp.float32
    np.testing.assert_allclose(gradient, 2000 / 256)
