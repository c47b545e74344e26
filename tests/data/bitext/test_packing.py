"""Packing loses no sentence, fills rows well, and no row overflows."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from flax_transformer.data.bitext.packing import pack

PROPERTY = settings(derandomize=True, deadline=None, max_examples=100)


@PROPERTY
@given(st.lists(st.tuples(st.integers(1, 32), st.integers(1, 24)), max_size=80))
def test_the_longest_come_first_each_into_the_fullest_row_that_holds_it_or_the_last_filled_of_equals(lengths):
    """By looking at every row for every sentence: runs that have begun go on with these rows."""
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
