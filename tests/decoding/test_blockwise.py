"""The largest numbers in stages against NumPy's stable sort."""

import jax
import numpy as np
import pytest

from flax_transformer.decoding.problem import BLOCK, _top_k_by_beam, blockwise_argmax, blockwise_top_k, top_k_of_beams


def expected(x: np.ndarray, k: int) -> np.ndarray:
    return np.argsort(-x, axis=1, kind='stable')[:, :k]


@pytest.mark.parametrize(
    ('size', 'k'),
    [
        (5, 5),  # too few for blocks
        (BLOCK * 6, 3),  # the fewest blocks
        (BLOCK * 6 + 1, 3),  # one number in the last block
        (1021, 8),
        (1021, 1),
    ],
)
def test_the_largest_are_those_of_a_stable_sort(size, k):
    rng = np.random.default_rng(size)
    distinct = rng.normal(size=(50, size))
    ties = rng.integers(0, 3, (50, size))  # nearly all are equal: the lower place comes first
    few = np.where(rng.random((50, size)) < 2 / size, 1.0, -1e9)  # fewer than k stand out
    x = np.concatenate([distinct, ties, few]).astype(np.float32)
    values, places, place = jax.jit(lambda x: (*blockwise_top_k(x, k), blockwise_argmax(x)))(x)
    np.testing.assert_array_equal(places, expected(x, k))
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected(x, k), axis=1))
    np.testing.assert_array_equal(place, expected(x, 1)[:, 0])
    beams = x.reshape(-1, 5, size)
    both = jax.jit(lambda beams: (top_k_of_beams(beams, 2 * k), _top_k_by_beam(beams, 2 * k)))
    for values, places in jax.device_get(both(beams)):
        np.testing.assert_array_equal(places, expected(beams.reshape(-1, 5 * size), 2 * k))
        np.testing.assert_array_equal(values, np.take_along_axis(beams.reshape(-1, 5 * size), places, axis=1))


@pytest.mark.parametrize(('platform', 'has_blocks'), [('cpu', True), ('tpu', False)])
def test_blocks_are_not_used_on_tpus(platform, has_blocks):
    traced = jax.jit(lambda x: top_k_of_beams(x, 8)).trace(jax.ShapeDtypeStruct((2, 4, 1000), 'float32'))
    text = traced.lower(lowering_platforms=(platform,)).as_text()
    assert ('tensor<2x4x16xf32>' in text) == has_blocks  # the maxima
