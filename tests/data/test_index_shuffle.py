"""Shuffled places are those of Grain, and a permutation of every size."""

import grain
import numpy as np
import pytest

from flax_transformer.data.order import shuffled


@pytest.mark.parametrize('size', [1000, 70_000, 2**18 - 1, 2**18, 2**18 + 2, 1_000_003, 3 * 10**9])
def test_places_are_those_of_grain(size: int) -> None:
    """Also over the ends of epochs: a run that was begun with Grain's order goes on in it."""
    random = np.random.default_rng(size)
    for seed in (0, 1, 2**32 - 1, 2**63 - 1):
        stream = grain.MapDataset.range(size).seed(seed).shuffle().repeat()
        places = np.concatenate([np.arange(size - 5, size + 5), random.integers(0, 9 * size, 40)])
        assert shuffled(places, size, seed).tolist() == [stream[int(place)] for place in places]


@pytest.mark.parametrize('size', [500, 65_536, 65_537])
def test_each_number_comes_once_an_epoch(size: int) -> None:
    """Grain loses one of 65,537."""
    epochs = shuffled(np.arange(2 * size), size, 77).reshape(2, size)
    for epoch in epochs:
        np.testing.assert_array_equal(np.sort(epoch), np.arange(size))
    assert (epochs[0] != epochs[1]).any()
