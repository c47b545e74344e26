"""Batches cost little CPU time, compared with a plain loop so that the machine does not matter."""

import itertools
import statistics
import time
from collections.abc import Callable

import numpy as np
import pytest

from flax_transformer.data.bitext.batches import PackedBatches
from flax_transformer.data.bitext.packing import PackingPlan
from flax_transformer.data.bitext.tokenized import Side, TokenizedPairs, offsets
from flax_transformer.data.order import Order

PAIRS = 70_000  # large enough that no whole epoch is held
SLOTS = {'source_slots': 128, 'target_slots': 128}


def cpu_seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def a_hundred_additions_for_each(count: int) -> int:
    total = 0
    for _ in range(100 * count):
        total += 1
    return total


@pytest.mark.slow
def test_a_pair_costs_less_than_five_hundred_additions_in_python() -> None:
    """One thread makes millions of tokens a second: a pair takes as long as 240 additions; in lists it took 1,400."""
    random = np.random.default_rng(0)
    lengths = random.lognormal(2.6, 0.35, (2, PAIRS)).round().clip(3, 60).astype(int)
    sides = (Side(np.ones(of_side.sum(), np.uint16), offsets(of_side)) for of_side in lengths)
    plan = PackingPlan([TokenizedPairs(*sides)], Order([PAIRS], [1], block_size=2048, seed=0), **SLOTS, seed=0)
    batches = iter(PackedBatches(plan, num_rows=256, **SLOTS, pad_id=0))
    next(batches)
    ratios, pairs = [], 0
    for _ in range(5):
        read = list(itertools.islice(batches, 8))
        pairs = sum(int(batch.target_segments.max(axis=1).sum()) for batch in read)
        ours = cpu_seconds(lambda: list(itertools.islice(batches, 8)))
        ratios.append(ours / cpu_seconds(lambda pairs=pairs: a_hundred_additions_for_each(pairs)))
    assert statistics.median(ratios) < 5, ratios
