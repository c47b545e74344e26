"""Dropout: how often, how evenly, and independent of what."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from flax_transformer.ops.dropout import Dropout, drawn_once, kept

SHAPE = (64, 32, 512)  # 2^20 elements
SIZE = np.prod(SHAPE)
masks = jax.jit(kept, static_argnums=(1, 2))


def drop(x, rate, seed=0, **kwargs):
    return Dropout(rate).apply({}, x, deterministic=False, rngs={'dropout': jax.random.key(seed)}, **kwargs)


@pytest.mark.parametrize('rate', [0.1, 0.5, 0.9])
def test_as_many_are_dropped_as_the_rate_says(rate):
    deviation = np.sqrt(rate * (1 - rate) / SIZE)
    for seed in range(8):
        dropped = 1 - np.asarray(masks(jax.random.key(seed), SHAPE, rate)).mean()
        assert abs(dropped - rate) < 4.5 * deviation


def correlation(a, b):
    """In deviations from none."""
    a, b = np.asarray(a, np.float64).ravel() - 0.9, np.asarray(b, np.float64).ravel() - 0.9
    return (a * b).sum() / (0.09 * np.sqrt(a.size))


def test_neighbors_are_independent():
    mask = np.asarray(masks(jax.random.key(2), SHAPE, 0.1))
    flat = mask.ravel()
    for distance in [1, 2, 3, 4, 7, 8, 16, 31, 64, 511, 512, 513, 1024, 4096, 16384, 65536]:
        assert abs(correlation(flat[:-distance], flat[distance:])) < 5


@pytest.mark.parametrize('of', [lambda key: key, drawn_once], ids=['steps, devices', 'modules'])
def test_keys_give_independent_masks(of):
    shape = (64, 1024)
    base = of(jax.random.key(5))
    drawn = [np.asarray(masks(jax.random.fold_in(base, step), shape, 0.1)) for step in range(24)]
    found = [abs(correlation(a, b)) for n, a in enumerate(drawn) for b in drawn[:n]]
    assert max(found) < 5
    # Nor are they one mask, moved: somewhere a moved mask would agree in all.
    first = np.packbits(drawn[0].ravel()[:4096])
    assert not any(first[:64].tobytes() in np.packbits(mask.ravel()).tobytes() for mask in drawn[1:])


def test_what_stays_is_scaled_and_carries_gradients():
    x = (np.random.default_rng(0).normal(size=(50, 40)) + 10).astype(np.float32)
    y = np.asarray(jax.jit(partial(drop, rate=0.25))(x))
    stays = y != 0
    assert 0.6 < stays.mean() < 0.9
    np.testing.assert_allclose(y[stays], (x / 0.75)[stays], rtol=1e-6)
    gradient = np.asarray(jax.jit(jax.grad(lambda x: drop(x, 0.25).sum()))(x))
    np.testing.assert_allclose(gradient, stays / 0.75, rtol=1e-6)
    assert jax.eval_shape(partial(drop, rate=0.25), x.astype(jnp.bfloat16)).dtype == jnp.bfloat16


def test_nothing_is_drawn_where_nothing_is_dropped():
    x = jnp.ones((2, 3))
    assert Dropout(0.5).apply({}, x) is x  # deterministic by default: without a key
    assert Dropout(0.0).apply({}, x, deterministic=False) is x


def test_the_mask_does_not_depend_on_the_devices():
    mesh = jax.make_mesh((2, 4), ('a', 'b'), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    whole = masks(jax.random.key(3), (8, 12, 16), 0.3)
    for spec in (PartitionSpec('a'), PartitionSpec('b', None, 'a'), PartitionSpec(None, 'b', 'a')):
        cut = jax.jit(kept, static_argnums=(1, 2), out_shardings=NamedSharding(mesh, spec))
        np.testing.assert_array_equal(cut(jax.random.key(3), (8, 12, 16), 0.3), whole)
