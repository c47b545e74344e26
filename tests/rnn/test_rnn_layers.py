"""Cells and layers against NumPy; packed rows, padding on either side, what both directions know at the end."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpy_rnn
import pytest

from flax_transformer.rnn.layers import BidirectionalLayer, RecurrentLayer, final_states

D, H = 4, 3
SEGMENTS = np.array(
    [[0, 1, 1, 1, 2, 0, 0], [1, 1, 1, 1, 0, 0, 0]]
)  # padding before, and the longest in a row of its own
SENTENCES = [(0, slice(1, 4)), (0, slice(4, 5)), (1, slice(0, 4))]
CLOSE = {'rtol': 0, 'atol': 1e-6}


@functools.cache
def run(kind, cell):
    """The input, random weights, and the layer's result."""
    draw = np.random.default_rng(0).normal
    x = draw(size=(2, 7, D)).astype(np.float32)
    layer = kind(D, H, cell)
    shapes = jax.eval_shape(layer.init, jax.random.key(0), x, SEGMENTS)
    variables = jax.tree.map(lambda leaf: draw(size=leaf.shape).astype(np.float32), shapes)
    return x, variables['params'], np.asarray(jax.jit(layer.apply)(variables, x, SEGMENTS))


@pytest.mark.parametrize('cell', ['lstm', 'gru'])
def test_both_directions_are_those_of_numpy_for_each_sentence(cell) -> None:
    x, params, both = run(BidirectionalLayer, cell)
    for place in SENTENCES:
        np.testing.assert_allclose(both[place], numpy_rnn.bidirectional(params, x[place], cell), **CLOSE)
    assert not both[SEGMENTS == 0].any()


def test_one_direction_is_that_of_numpy() -> None:
    x, params, h = run(RecurrentLayer, 'gru')
    for place in SENTENCES:
        np.testing.assert_allclose(h[place], numpy_rnn.layer(params, x[place], 'gru'), **CLOSE)


def test_final_states_are_where_each_direction_ends() -> None:
    _, _, both = run(BidirectionalLayer, 'lstm')
    found = final_states(jnp.asarray(both), SEGMENTS, np.array([[2, 1], [1, 1]]))
    for asked, (row, place) in (((0, 1), SENTENCES[0]), ((0, 0), SENTENCES[1]), ((1, 1), SENTENCES[2])):
        expected = np.concatenate([both[row, place][-1, :H], both[row, place][0, H:]])
        np.testing.assert_array_equal(found[asked], expected)


def test_a_fresh_layer_keeps_the_length_of_its_state() -> None:
    """The recurrent weights of each gate are orthogonal."""
    kernel = RecurrentLayer(D, H, 'gru').init(jax.random.key(0), jnp.ones((1, 1, D)), jnp.ones((1, 1)))
    gates = np.asarray(kernel['params']['recurrent']['kernel']).reshape(H, 3, H)
    np.testing.assert_allclose(np.einsum('HGE,HGF->GEF', gates, gates), [np.eye(H)] * 3, atol=1e-5)
