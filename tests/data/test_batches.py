"""Batches hold the sentences of the plan and nothing else, whoever reads them and wherever they go on."""

import itertools
import json
from collections import Counter

import grain
import numpy as np
import pytest

from flax_transformer.data import Batch, PackedBatches, Pairs, TokenizedPairs, tokenize, validation_batches
from flax_transformer.data.packing import Plan
from flax_transformer.data.tokenized import flatten
from flax_transformer.tokenizer import Tokenizer

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


def packed(seed=0, **changes):
    plan = Plan(PAIRS.source.lengths, PAIRS.target.lengths, **SLOTS, block_size=40, seed=seed)
    return PackedBatches(PAIRS, plan, **{'num_rows': ROWS, **SLOTS, 'pad_id': PAD, **changes})


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


def test_every_batch_has_the_same_shape():
    for batch in take(iter(packed()), MANY):
        assert [array.shape for array in batch] == [(ROWS, SOURCE), (ROWS, TARGET)] * 3
        assert all(array.dtype == np.int32 for array in batch)


def test_weights_are_zero_exactly_on_padding():
    for batch in take(iter(packed()), MANY):
        for ids, segments in ((batch.source, batch.source_segments), (batch.target, batch.target_segments)):
            np.testing.assert_array_equal(segments == 0, ids == PAD)
            weights = segments > 0
            assert (np.diff(weights.astype(int), axis=1) <= 0).all()  # padding is at the end of a row


def test_each_segment_is_a_sentence_beside_its_translation_with_its_positions():
    for batch in take(iter(packed()), MANY):
        assert indices_of(batch)
        for segments, positions in (
            (batch.source_segments, batch.source_positions),
            (batch.target_segments, batch.target_positions),
        ):
            for row_segments, row_positions in zip(segments, positions, strict=True):
                numbers = list(dict.fromkeys(row_segments[row_segments > 0].tolist()))
                assert numbers == list(range(1, len(numbers) + 1))
                for number in numbers:
                    here = row_positions[row_segments == number]
                    np.testing.assert_array_equal(here, np.arange(len(here)))
                assert (row_positions[row_segments == 0] == 0).all()


def test_one_packed_row_drawn():
    pairs = TokenizedPairs(flatten([[5, 6, 1], [7, 1]]), flatten([[8, 1], [3, 4, 1]]), 0, 0)
    plan = Plan(pairs.source.lengths, pairs.target.lengths, source_slots=6, target_slots=7, block_size=2, seed=0)
    batches = PackedBatches(pairs, plan, num_rows=1, source_slots=6, target_slots=7, pad_id=0)
    rows = {
        '0 first': [[5, 6, 1, 7, 1, 0], [8, 1, 3, 4, 1, 0, 0]],
        '1 first': [[7, 1, 5, 6, 1, 0], [3, 4, 1, 8, 1, 0, 0]],
    }
    batch = next(iter(batches))
    assert [batch.source[0].tolist(), batch.target[0].tolist()] in rows.values()
    first, second = (3, 2) if batch.source[0, 0] == 5 else (2, 3)
    assert batch.source_segments[0].tolist() == [1] * first + [2] * second + [0]
    assert batch.target_segments[0].tolist() == [1] * second + [2] * first + [0, 0]
    assert batch.source_positions[0].tolist() == [*range(first), *range(second), 0]


def test_epochs_follow_without_a_gap_or_a_repetition():
    """Batches cross the border of an epoch; still each sentence comes once before any comes again."""
    seen = Counter()
    for batch in take(iter(packed()), 3 * MANY):
        for index in indices_of(batch):
            seen[index] += 1
            if seen[index] > min(seen.values()) + 1:
                pytest.fail(f'sentence {index} came {seen[index]} times before another came')
        assert len(seen) == len(PAIRS) or max(seen.values()) == 1
    assert max(seen.values()) - min(seen.values()) <= 1
    assert min(seen.values()) >= 6


@pytest.mark.parametrize('num_processes', [1, 2, 4])
def test_processes_together_read_the_same_global_batches(num_processes):
    whole = take(iter(packed()), MANY)
    shares = [
        take(iter(packed(process=process, num_processes=num_processes)), MANY) for process in range(num_processes)
    ]
    joined = [Batch(*map(np.concatenate, zip(*parts, strict=True))) for parts in zip(*shares, strict=True)]
    assert_equal(joined, whole)
    assert shares[0][0].source.shape == (ROWS // num_processes, SOURCE)


def test_rows_that_do_not_divide_among_processes_are_refused():
    with pytest.raises(ValueError, match='8 rows of a batch do not divide among 3 processes'):
        packed(num_processes=3)


def test_different_seeds_give_different_batches():
    assert (next(iter(packed(0))).source != next(iter(packed(1))).source).any()


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


def test_the_state_is_one_integer():
    iterator = iter_from(packed(), 11)
    assert [type(value) for value in iterator.get_state().values()] == [int]


def test_a_reader_can_be_set_back():
    iterator = iter(packed())
    start = iterator.get_state()
    first = take(iterator, MANY)
    iterator.set_state(start)
    assert_equal(take(iterator, MANY), first)


def test_reading_the_state_does_not_move_the_reader():
    iterator = iter(packed())
    for batch in take(iter(packed()), 5):
        assert iterator.get_state() == iterator.get_state()
        assert_equal([next(iterator)], [batch])


def test_two_readers_of_one_dataset_do_not_disturb_each_other():
    dataset = packed()
    one, two = iter(dataset), iter(dataset)
    ahead = take(one, MANY)
    assert_equal(take(two, MANY), ahead)


def test_a_grain_prefetcher_keeps_order_and_state():
    """The state speaks of what was given out, not of what was read ahead."""
    plain = iter(packed())
    prefetching = iter(grain.experimental.ThreadPrefetchIterDataset(packed(), prefetch_buffer_size=4))
    try:
        for _ in range(MANY):
            assert prefetching.get_state() == plain.get_state()
            assert_equal([next(prefetching)], [next(plain)])
        state = json.loads(json.dumps(prefetching.get_state()))
    finally:
        prefetching.close()
    resumed = iter(grain.experimental.ThreadPrefetchIterDataset(packed(), prefetch_buffer_size=4))
    try:
        resumed.set_state(state)
        assert_equal(take(resumed, 5), take(plain, 5))
    finally:
        resumed.close()


def test_validation_reads_every_pair_once_the_same_way_every_time():
    def read():
        return list(validation_batches(PAIRS, num_rows=ROWS, **SLOTS, pad_id=PAD))

    batches = read()
    assert Counter(i for batch in batches for i in indices_of(batch)) == Counter(range(len(PAIRS)))
    assert all(array.shape[0] == ROWS for batch in batches for array in batch)
    assert len({tuple(array.shape for array in batch) for batch in batches}) == 1
    assert_equal(read(), batches)


def test_validation_keeps_over_long_sentences_and_only_grows_for_them():
    pairs = made_up_pairs(count=20, longest=60)
    source, target = pairs.source.lengths.max(), pairs.target.lengths.max()
    assert source > SOURCE
    batches = list(validation_batches(pairs, num_rows=4, source_slots=SOURCE, target_slots=100, pad_id=PAD))
    assert Counter(i for batch in batches for i in indices_of(batch, pairs)) == Counter(range(20))
    assert {batch.source.shape for batch in batches} == {(4, source)}
    assert {batch.target.shape for batch in batches} == {(4, max(target, 100))}


def test_rows_that_fill_the_last_validation_batch_weigh_nothing():
    batches = list(validation_batches(made_up_pairs(count=3), num_rows=64, **SLOTS, pad_id=PAD))
    assert len(batches) == 1
    empty = batches[0].target_segments.max(axis=1) == 0
    assert empty.sum() >= 61
    assert (batches[0].source[empty] == PAD).all()
    assert (batches[0].source_segments[empty] == 0).all()


def test_an_empty_validation_set_has_no_batches():
    assert (
        list(validation_batches(TokenizedPairs(flatten([]), flatten([]), 0, 0), num_rows=2, **SLOTS, pad_id=PAD)) == []
    )


TOKENIZER = Tokenizer.train(['one two three four five six', 'eins zwei drei vier'] * 5, vocab_size=280)


def test_blank_and_over_long_pairs_are_left_out_and_counted():
    sources = ['one', '', 'two', 'three ' * 30, 'four', '\u2028 ', 'five', ' ']
    targets = ['eins', 'leer', ' \t', 'drei', 'vier ' * 30, 'x' * 90, 'zwei', '']
    tokenized = tokenize(Pairs(sources, targets), TOKENIZER, 20, 20)
    assert tokenized.num_blank == 4
    assert tokenized.num_too_long == 2
    assert len(tokenized) == 2
    for i, index in enumerate((0, 6)):
        assert tokenized.source.sentence(i).tolist() == TOKENIZER.encode([sources[index]])[0]
        assert tokenized.target.sentence(i).tolist() == TOKENIZER.encode([targets[index]])[0]


def test_a_sentence_of_exactly_the_slots_eos_counted_is_kept():
    length = len(TOKENIZER.encode(['one two three'])[0])
    pairs = Pairs(['one two three'], ['eins'])
    assert tokenize(pairs, TOKENIZER, length, 20).num_too_long == 0
    assert tokenize(pairs, TOKENIZER, length - 1, 20).num_too_long == 1
    assert tokenize(Pairs(['eins'], ['one two three']), TOKENIZER, 20, length).num_too_long == 0
    assert tokenize(Pairs(['eins'], ['one two three']), TOKENIZER, 20, length - 1).num_too_long == 1


def test_without_slots_no_sentence_is_too_long():
    tokenized = tokenize(Pairs(['one ' * 500, ''], ['eins', 'x']), TOKENIZER)
    assert (len(tokenized), tokenized.num_too_long, tokenized.num_blank) == (1, 0, 1)


def test_no_sentences_at_all_make_an_empty_set():
    tokenized = tokenize(Pairs([], []), TOKENIZER, 20, 20)
    assert len(tokenized) == 0
    assert tokenized.source.offsets.tolist() == [0]
    assert tokenized.source.ids.dtype == np.int32
