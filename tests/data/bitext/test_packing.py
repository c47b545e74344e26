"""Packing loses no sentence, fills rows well, and no row overflows; a place in the stream is one integer."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flax_transformer.data.bitext.batches import Place
from flax_transformer.data.bitext.packing import pack

PROPERTY = settings(derandomize=True, deadline=None, max_examples=100)


@pytest.mark.parametrize(
    ('lengths', 'rows'),
    [
        ([6, 4, 5, 5], [[0, 1], [2, 3]]),
        ([4, 6, 3, 7], [[3, 2], [1, 0]]),
        ([6, 7, 3], [[1, 2], [0]]),
        ([10, 10], [[0], [1]]),
        ([5, 4, 3, 2], [[0, 1], [2, 3]]),
        ([], []),
    ],
)
def test_the_longest_come_first_each_into_the_fullest_row_that_holds_it(lengths, rows):
    assert pack(np.array(lengths), np.array(lengths), 10, 10) == rows


@PROPERTY
@given(st.lists(st.tuples(st.integers(1, 32), st.integers(1, 24)), max_size=80))
def test_of_rows_as_full_as_each_other_the_one_filled_last_is_taken(lengths):
    """The rows themselves, looking at every row for every sentence: runs that have begun go on with them."""
    source, target = np.array(lengths, int).reshape(-1, 2).T
    rows, left, touched = [], [], []
    for item in np.argsort(-np.maximum(source / 32, target / 24), kind='stable').tolist():
        fitting = [r for r, (s, t) in enumerate(left) if s >= source[item] and t >= target[item]]
        if fitting:
            row = min(fitting, key=lambda r: (left[r][1], -touched[r]))
        else:
            row = len(rows)
            rows.append([])
            left.append((32, 24))
            touched.append(0)
        rows[row].append(item)
        left[row] = left[row][0] - source[item], left[row][1] - target[item]
        touched[row] = sum(map(len, rows))
    assert pack(source, target, 32, 24) == rows


@PROPERTY
@given(st.integers(0, 2**38), st.integers(0, 2**24 - 1))
def test_a_place_is_one_integer_and_back(block, row):
    place = Place(block, row)
    assert Place.of(place.position) == place
    assert Place(block, row).position < Place(block + 1, 0).position
