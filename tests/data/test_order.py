"""The order is a pure function of (seed, block): every sentence once an epoch, the shares in every stretch."""

import tracemalloc
from collections import Counter
from fractions import Fraction

import grain
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flax_transformer.data.order import Order, shares, shuffled

PROPERTY = settings(derandomize=True, deadline=None, max_examples=40)


def order_of(*sizes, weights=None, block_size=50, seed=0):
    weights = weights or [None] * len(sizes)
    return Order(sizes, shares(sizes, weights, 1.0), block_size=block_size, seed=seed)


def places(order, blocks):
    """(corpus, index, epoch) of every sentence of the blocks, in their order."""
    return [place for block in blocks for place in zip(*(x.tolist() for x in order.block(block)), strict=True)]


def indices(order, blocks):
    return [index for _, index, _ in places(order, blocks)]


def test_the_order_is_a_pure_function_of_seed_and_block():
    """Whatever was asked before, and of whatever object."""
    forwards = [places(order_of(70, 30), [block]) for block in range(9)]
    order = order_of(70, 30)
    assert [places(order, [block]) for block in reversed(range(9))] == forwards[::-1]
    assert places(order, [4]) == places(order, [4])


@PROPERTY
@given(
    st.lists(st.integers(1, 90), min_size=1, max_size=4),
    st.integers(1, 130),
    st.booleans(),
    st.data(),
)
def test_each_sentence_comes_once_an_epoch_of_its_corpus(sizes, block_size, weighted, data):
    weights = [data.draw(st.sampled_from([0.25, 1.0, 3.5])) if weighted else None for _ in sizes]
    order = order_of(*sizes, weights=weights, block_size=block_size, seed=1)
    drawn = places(order, range(12))
    for corpus, size in enumerate(sizes):
        stream = [(epoch, index) for of, index, epoch in drawn if of == corpus]
        # One epoch after the other, without a gap: the n-th sentence is of epoch n // size.
        assert [epoch for epoch, _ in stream] == [n // size for n in range(len(stream))]
        seen = Counter(index for _, index in stream)
        assert set(seen) <= set(range(size))
        for epoch in range(len(stream) // size):
            assert sorted(index for e, index in stream if e == epoch) == list(range(size))


@PROPERTY
@given(
    st.lists(st.integers(1, 5000), min_size=1, max_size=5),
    st.lists(st.sampled_from([0.1, 0.3, 1.0, 2.5, 7.0]), min_size=5, max_size=5),
    st.booleans(),
)
def test_the_shares_hold_in_every_stretch(sizes, weights, weighted):
    """After any number of blocks a corpus has its exact share but for less than one sentence; in a stretch, one."""
    weights = weights[: len(sizes)] if weighted else [None] * len(sizes)
    order = order_of(*sizes, weights=weights, block_size=64)
    size = min(64, sum(sizes))
    counts = np.array([[np.count_nonzero(order.block(b).corpora == c) for c in range(len(sizes))] for b in range(20)])
    totals = counts.cumsum(axis=0)
    for corpus, share in enumerate(shares(sizes, weights, 1.0)):
        for block in range(20):
            assert 0 <= (block + 1) * size * share - int(totals[block, corpus]) < 1
        for first in (3, 11):
            stretch = int(counts[first : first + 5, corpus].sum())
            assert abs(stretch - 5 * size * share) < 1
    assert abs(int(counts.sum()) - 20 * size) < len(sizes)


@pytest.mark.parametrize('small', [0, 1 << 16], ids=['place by place', 'whole epochs'])
def test_large_and_small_corpora_are_shuffled_alike(small, monkeypatch):
    """An epoch of a large corpus is never held: its places are computed one by one."""
    monkeypatch.setattr('flax_transformer.data.order._SMALL', small)
    order = order_of(3000, block_size=1000)
    epochs = [indices(order, range(first, first + 3)) for first in (0, 3)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(3000))
        assert abs(np.corrcoef(epoch, np.arange(3000))[0, 1]) < 0.06  # three standard deviations of a random order
    assert sum(a == b for a, b in zip(*epochs, strict=True)) < 10


def test_the_order_of_a_corpus_depends_on_its_place_not_on_the_others_sizes_or_weights():
    def first(order, count):
        return [index for corpus, index, _ in places(order, range(40)) if corpus == 1][:count]

    alone = first(order_of(60, 80, weights=[1.0, 1.0]), 200)
    assert len(alone) == 200
    assert first(order_of(9000, 80, weights=[1.0, 1.0]), 200) == alone
    assert first(order_of(60, 80, weights=[1.0, 3.0]), 200) == alone


def test_a_billion_sentences_take_no_memory():
    tracemalloc.start()
    try:
        order = order_of(10**9, 3 * 10**8, block_size=2000)
        drawn = places(order, [0, 10**7])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10_000_000
    assert len(set(drawn)) == len(drawn) >= 3996
    assert max(index for corpus, index, _ in drawn if corpus == 0) > 9 * 10**8
    # 2 * 10^10 sentences before block 10^7, of both: 15 epochs of 1.3 * 10^9.
    assert {epoch for _, _, epoch in drawn} == {0, 15}


@pytest.mark.parametrize('weights', [[1.0, 3.0], [0.1, 0.3], [1e-7, 3e-7], [1e12, 3e12], [1e-300, 3e-300]])
def test_shares_by_weight_are_relative_and_do_not_look_at_sizes(weights):
    assert shares([5, 5_000_000], weights, 1.0) == [Fraction(1, 4), Fraction(3, 4)]


def test_a_temperature_raises_the_share_of_small_corpora():
    by_size = shares([100, 10_000], [None, None], 1.0)
    warmer = shares([100, 10_000], [None, None], 2.0)
    hot = shares([100, 10_000], [None, None], 1000.0)
    assert by_size == [Fraction(1, 101), Fraction(100, 101)]
    assert warmer == [Fraction(1, 11), Fraction(10, 11)]  # square roots
    assert float(hot[0]) == pytest.approx(0.5, abs=0.01)
    for each in (by_size, warmer, hot):
        assert sum(each) == 1


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
