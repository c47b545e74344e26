"""Weights in the form that decoding reads, and parameters that are given."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.errors import ScopeParamShapeError

from flax_transformer.ops.decoding_weights import Transposed, for_decoding, replaced, to_params
from flax_transformer.ops.dense import Dense, side_by_side
from flax_transformer.ops.product import product


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize('shape', [(1, 6), (3, 6), (65, 6), (2, 3, 6)])
def test_a_product_with_a_transposed_weight_is_the_same(shape):
    x, weight = random(*shape), random(6, 5, seed=1)
    found = jax.jit(product)(x, Transposed(jnp.asarray(weight.T)))
    np.testing.assert_allclose(found, x @ weight, rtol=1e-5, atol=1e-5)


class Pair(nn.Module):
    """Two layers of one input."""

    def setup(self):
        self.first, self.second = Dense(6, 4), Dense(6, 4)

    def __call__(self, x):
        return side_by_side(x, self.first, self.second)


def test_matrices_alone_change_and_change_back():
    params = jax.jit(Pair().init)(jax.random.key(0), np.ones((1, 6)))['params']
    weights = for_decoding(params, 'float32')
    assert all(
        type(layer['kernel']) is Transposed and layer['kernel'].rows.shape == (4, 6) for layer in weights.values()
    )
    assert all(weights[name]['bias'] is params[name]['bias'] for name in params)
    jax.tree.map(np.testing.assert_array_equal, to_params(weights), params)
    x = random(2, 6)
    for found, expected in zip(*(Pair().apply({'params': tree}, x) for tree in (weights, params)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_what_changed_alone_is_another():
    params = {'layer': {'kernel': jnp.ones((2, 3)), 'bias': jnp.ones(3)}, 'projection': jnp.ones((2, 4))}
    weights = for_decoding(params, 'float32')
    new = {'projection': jnp.full((2, 4), 2.0), 'layer/bias': jnp.zeros(3)}
    found = replaced(weights, new)
    assert found['layer']['kernel'].rows is weights['layer']['kernel'].rows
    expected = {
        'layer': {'kernel': params['layer']['kernel'], 'bias': new['layer/bias']},
        'projection': new['projection'],
    }
    jax.tree.map(np.testing.assert_array_equal, to_params(found), expected)


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16', 'int8', 'uint8'])
def test_what_is_replaced_is_freed_if_asked(dtype):
    params = {'kernel': jnp.ones((2, 3)), 'bias': jnp.ones(3)}
    weights = for_decoding(params, dtype, frees=True)
    assert params['kernel'].is_deleted()
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(weights))


@pytest.mark.parametrize('kernel', [np.ones((4, 6)), Transposed(np.ones((6, 4)))], ids=['array', 'transposed'])
def test_a_weight_of_another_shape_is_no_parameter(kernel):
    with pytest.raises(ScopeParamShapeError, match='kernel'):
        Dense(6, 4).apply({'params': {'kernel': kernel, 'bias': np.ones(4)}}, np.ones((1, 6)))


def test_a_parameter_is_taken_out_of_its_box():
    box = nn.Partitioned(jnp.ones((6, 4)), names=(None, None))
    found = Dense(6, 4, use_bias=False).apply({'params': {'kernel': box}}, np.ones((1, 6)))
    np.testing.assert_array_equal(found, np.full((1, 4), 6.0))
