"""Batches hold the sentences of the plan and nothing else, whoever reads them and wherever they go on."""

import itertools
import json
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from flax_transformer.data.bitext.batches import Batch, PackedBatches, validation_batches
from flax_transformer.data.bitext.packing import PackingPlan, join_rows
from flax_transformer.data.bitext.tokenized import TokenizedPairs, flatten
from flax_transformer.data.order import Order

PAD, SOURCE, TARGET, ROWS = 9, 32, 24, 8
SLOTS = {'source_slots': SOURCE, 'target_slots': TARGET}


def made_up_pairs(count=150, longest=18, seed=0):
    """Pairs whose ids all differ: 1000 i + k on the source side, 1000 i + 500 + k on the target side."""
    random = np.random.default_rng(seed)
    sides = [
        [1000 * i + offset + np.arange(length) for i, length in enumerate(random.integers(1, longest, count))]
        for offset in (10, 500)
    ]
    return TokenizedPairs(flatten(sides[0]), flatten(sides[1]), num_blank=0, num_too_long=0)


PAIRS = made_up_pairs()


def plan_of(*corpora, block_size=40, seed=0, **slots):
    sizes = [len(pairs) for pairs in corpora]
    order = Order(sizes, [Fraction(size, sum(sizes)) for size in sizes], block_size=block_size, seed=seed)
    return PackingPlan(corpora, order, **{**SLOTS, **slots}, seed=seed)


def packed(seed=0, **changes):
    return PackedBatches(plan_of(PAIRS, seed=seed), **{'num_rows': ROWS, **SLOTS, 'pad_id': PAD, **changes})


def take(iterator, count):
    return list(itertools.islice(iterator, count))


def assert_equal(batches, others):
    assert len(batches) == len(others)
    for batch, other in zip(batches, others, strict=True):
        for name, one, two in zip(Batch._fields, batch, other, strict=True):
            np.testing.assert_array_equal(one, two, err_msg=name)


def sentences_of(batch):
    """(source ids, target ids) of every segment, row by row."""
    for source, target, source_segments, target_segments in zip(*batch[:4], strict=True):
        for segment in range(1, max(source_segments.max(), target_segments.max()) + 1):
            yield source[source_segments == segment], target[target_segments == segment]


def indices_of(batch, pairs=PAIRS):
    """Which sentences a batch holds; asserts that each is whole and has its own translation."""
    indices = []
    for source, target in sentences_of(batch):
        index = int(source[0]) // 1000
        np.testing.assert_array_equal(source, pairs.source.sentence(index))
        np.testing.assert_array_equal(target, pairs.target.sentence(index))
        indices.append(index)
    return indices


# Over two epochs: 150 sentences of 9 tokens are some 60 rows.
MANY = 18


def test_each_segment_is_a_sentence_beside_its_translation_with_its_positions():
    for batch in take(iter(packed()), MANY):
        assert indices_of(batch)
        assert [array.shape for array in batch[:6]] == [(ROWS, SOURCE), (ROWS, TARGET)] * 3
        for ids, segments, positions in (batch[0:6:2], batch[1:6:2]):
            np.testing.assert_array_equal(segments == 0, ids == PAD)
            for row_segments, row_positions in zip(segments, positions, strict=True):
                numbers = list(dict.fromkeys(row_segments[row_segments > 0].tolist()))
                assert numbers == list(range(1, len(numbers) + 1))
                for number in numbers:
                    here = row_positions[row_segments == number]
                    np.testing.assert_array_equal(here, np.arange(len(here)))
                assert (row_positions[row_segments == 0] == 0).all()


def test_batches_are_the_rows_of_the_plan_one_after_the_other():
    """Whether blocks and epochs end inside a batch or not."""
    plan = plan_of(PAIRS)
    rows = join_rows([plan.rows(block) for block in range(20)])
    batches = take(iter(packed()), rows.count // ROWS)
    assert len(batches) > 2 * MANY
    assert [i for batch in batches for i in indices_of(batch)] == [
        rows.source.sentence(i)[0] // 1000 for i in range(rows.bounds[ROWS * len(batches)])
    ]


def test_a_resume_plans_one_block_again_and_no_more():
    """However far the reader has come: the position says where, nothing is read to get there."""
    reader = iter_from(packed(), 100)
    resumed = packed()
    planned, rows = [], resumed.plan.rows
    resumed.plan.rows = lambda block: planned.append(block) or rows(block)
    reader_again = iter(resumed)
    reader_again.set_state(reader.get_state())
    assert planned == []
    assert_equal([next(reader_again)], [next(reader)])
    assert len(planned) <= 2  # a batch may end in the next block
    assert planned[0] > 20


def test_the_state_counts_the_sentences_before_it_also_after_resuming():
    """Of the corpora of a mixture by weight, too, where a block takes uneven shares."""
    corpora = [made_up_pairs(count, seed=seed) for seed, count in enumerate((70, 20, 40))]
    order = Order([70, 20, 40], [Fraction(1, 7), Fraction(2, 7), Fraction(4, 7)], block_size=33, seed=0)
    plan = PackingPlan(corpora, order, source_slots=SLOTS['source_slots'], target_slots=SLOTS['target_slots'], seed=0)
    dataset = PackedBatches(plan, num_rows=ROWS, **SLOTS, pad_id=PAD)
    reader, count = iter(dataset), 0
    for batch in range(MANY):
        assert reader.get_state()['sentences'] == count
        if batch == MANY // 2:  # a checkpoint of an earlier version has it so, and one of today
            state = reader.get_state()
            for known in ({'position': state['position']}, state):
                again = iter(dataset)
                again.set_state(known)
                next(again)
                after = again.get_state()
        count += sum(map(len, dataset.sentences(reader.get_state())))
        next(reader)
        if batch == MANY // 2:
            assert after == reader.get_state()
    assert count > 2 * order.sentences_before(1)


def test_each_token_says_of_which_corpus_it_is():
    corpora = [made_up_pairs(count, seed=seed) for seed, count in enumerate((70, 20, 40))]
    dataset = PackedBatches(plan_of(*corpora), num_rows=ROWS, **SLOTS, pad_id=PAD)
    seen = Counter()
    for batch in take(iter(dataset), MANY):
        assert batch.corpora.shape == batch.target.shape
        assert batch.corpora.dtype == np.int32
        assert (batch.corpora[batch.target_segments == 0] == 0).all()
        for (source, target), numbers in zip(sentences_of(batch), numbers_of(batch), strict=True):
            assert len(set(numbers)) == 1
            pairs, index = corpora[numbers[0]], int(source[0]) // 1000
            np.testing.assert_array_equal(source, pairs.source.sentence(index))
            np.testing.assert_array_equal(target, pairs.target.sentence(index))
            seen[numbers[0], index] += 1
    assert {number for number, _ in seen} == {0, 1, 2}
    assert max(seen.values()) - min(seen[n, i] for n, pairs in enumerate(corpora) for i in range(len(pairs))) <= 1
    validation = list(validation_batches(corpora, num_rows=ROWS, **SLOTS, pad_id=PAD))
    of_validation = Counter(n[0] for batch in validation for n in numbers_of(batch))
    assert of_validation == {0: 70, 1: 20, 2: 40}


def numbers_of(batch):
    """The corpus numbers of each segment's target tokens."""
    for numbers, segments in zip(batch.corpora, batch.target_segments, strict=True):
        for segment in range(1, segments.max() + 1):
            yield numbers[segments == segment].tolist()


@pytest.mark.parametrize('own', [[0, 1, 6], [3], [1, 2, 4, 7]], ids=str)
def test_a_process_may_have_any_rows_in_their_order(own):
    """Of a mesh that is not in process order, or of one row part on several hosts."""
    corpora = [made_up_pairs(count, seed=seed) for seed, count in enumerate((70, 20))]
    settings = {'num_rows': ROWS, **SLOTS, 'pad_id': PAD}
    whole = iter(PackedBatches(plan_of(*corpora), **settings))
    part = iter(PackedBatches(plan_of(*corpora), **settings, own_rows=np.array(own)))
    assert_equal(take(part, MANY), [Batch(*(array[own] for array in batch)) for batch in take(whole, MANY)])
    assert part.get_state() == whole.get_state()  # any process may write it down, and any other number go on from it


def test_a_reader_goes_on_where_another_stopped():
    """After any batch: within a block, at its end, over the border of an epoch."""
    whole = take(iter(packed()), MANY)
    reader = iter(packed())
    for done in range(MANY):
        state = json.loads(json.dumps(reader.get_state()))
        resumed = iter(packed())
        resumed.set_state(state)
        assert_equal(take(resumed, 7), (whole + take(iter_from(packed(), MANY), 7))[done : done + 7])
        next(reader)


def iter_from(dataset, count):
    iterator = iter(dataset)
    take(iterator, count)
    return iterator


def test_validation_reads_every_pair_once_the_same_way_every_time():
    def read():
        return list(validation_batches([PAIRS], num_rows=ROWS, **SLOTS, pad_id=PAD))

    batches = read()
    assert Counter(i for batch in batches for i in indices_of(batch)) == Counter(range(len(PAIRS)))
    assert all(array.shape[0] == ROWS for batch in batches for array in batch[:6])
    assert len({tuple(array.shape for array in batch[:6]) for batch in batches}) == 1
    assert_equal(read(), batches)


def test_validation_keeps_over_long_sentences_and_only_grows_for_them():
    pairs = made_up_pairs(count=20, longest=60)
    source, target = pairs.source.lengths.max(), pairs.target.lengths.max()
    assert source > SOURCE
    batches = list(validation_batches([pairs], num_rows=4, source_slots=SOURCE, target_slots=100, pad_id=PAD))
    assert Counter(i for batch in batches for i in indices_of(batch, pairs)) == Counter(range(20))
    assert {batch.source.shape for batch in batches} == {(4, source)}
    assert {batch.target.shape for batch in batches} == {(4, max(target, 100))}


def test_an_empty_validation_set_has_no_batches():
    assert list(validation_batches([TokenizedPairs(flatten([]), flatten([]))], num_rows=2, **SLOTS, pad_id=PAD)) == []
