"""The plan is a pure function of (seed, block), loses no sentence, and leaves little of a row empty."""

import itertools
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flax_transformer.data.bitext import cache
from flax_transformer.data.bitext.corpus import Pairs
from flax_transformer.data.bitext.packing import PackingPlan, Sampling
from flax_transformer.data.bitext.text_files import AlignedFiles
from flax_transformer.data.bitext.tokenized import TokenizedPairs, flatten
from flax_transformer.data.order import Order, shares
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer

PROPERTY = settings(derandomize=True, deadline=None, max_examples=60)
SLOTS = {'source_slots': 128, 'target_slots': 128}


def pairs_of(source_lengths, target_lengths):
    """Pairs of these lengths; sentence i holds nothing but i."""
    sides = (flatten(np.full(length, i) for i, length in enumerate(side)) for side in (source_lengths, target_lengths))
    return TokenizedPairs(*sides)


def plan_of(*corpora, block_size=300, seed=0, **changes):
    sizes = [len(pairs) for pairs in corpora]
    order = Order(sizes, shares(sizes, [None] * len(sizes), 1.0), block_size=block_size, seed=seed)
    return PackingPlan(corpora, order, **{**SLOTS, 'seed': seed, **changes})


def like_multi30k(count, seed=0):
    """Lengths of captions: log-normal around 14 tokens, and a target that follows its source."""
    random = np.random.default_rng(seed)
    source = np.clip(random.lognormal(2.6, 0.35, count).round(), 3, 60).astype(int)
    return source, np.clip((source * random.normal(1.05, 0.15, count)).round(), 3, 60).astype(int)


def like_wmt(count, seed=0):
    """Lengths of news and debates: log-normal with a mean of 28 tokens, up to a whole row."""
    random = np.random.default_rng(seed)
    source = np.clip(random.lognormal(3.13, 0.65, count).round(), 2, 128).astype(int)
    return source, np.clip((source * random.normal(1.05, 0.2, count)).round(), 2, 128).astype(int)


def pairs_in(rows):
    """Rows as lists of pairs."""
    arrays = [
        [SimpleNamespace(source=rows.source.sentence(i), target=rows.target.sentence(i), corpus=int(rows.corpora[i]))]
        for i in range(len(rows.indices))
    ]
    return [[pair for (pair,) in arrays[a:b]] for a, b in itertools.pairwise(rows.bounds)]


def plain(rows):
    """Rows as comparable lists."""
    return [[(e.source.tolist(), e.target.tolist(), e.corpus) for e in row] for row in pairs_in(rows)]


def sentences(rows):
    return [int(example.source[0]) for row in rows for example in row]


def fill(plan, blocks):
    """The share of the source and of the target slots that hold a token."""
    rows = [plan.rows(block) for block in blocks]
    count = sum(each.count for each in rows)
    return [sum(len(each[side].ids) for each in rows) / (128 * count) for side in (0, 1)]


def test_the_rows_of_a_block_are_shuffled_by_the_seed():
    """Also where the sentences of the block are the same ones."""
    pairs = pairs_of(*like_multi30k(400))
    order = Order([400], [1], block_size=400, seed=0)
    one, other = (PackingPlan([pairs], order, **SLOTS, seed=seed).rows(0) for seed in (0, 1))
    assert sentences(pairs_in(one)) != sentences(pairs_in(other))
    assert sorted(plain(one)) == sorted(plain(other))


@PROPERTY
@given(st.lists(st.tuples(st.integers(1, 32), st.integers(1, 24)), min_size=1, max_size=60), st.integers(1, 70))
def test_no_sentence_is_lost_or_doubled_and_no_row_overflows(lengths, block_size):
    """After each block each sentence came as often as epochs were ended, or begun."""
    pairs = pairs_of(*np.array(lengths).T)
    plan = plan_of(pairs, block_size=block_size, source_slots=32, target_slots=24)
    size, seen = min(block_size, len(lengths)), Counter()
    for block in range(5):
        for row in pairs_in(plan.rows(block)):
            assert 1 <= sum(len(e.source) for e in row) <= 32
            assert 1 <= sum(len(e.target) for e in row) <= 24
            for example in row:
                index = int(example.source[0])
                np.testing.assert_array_equal(example.source, pairs.source.sentence(index))
                np.testing.assert_array_equal(example.target, pairs.target.sentence(index))
                seen[index] += 1
        read = (block + 1) * size
        ended, begun = read // len(lengths), -(-read // len(lengths))
        assert {seen[i] for i in range(len(lengths))} <= {ended, begun}
        assert seen.total() == read


@pytest.mark.parametrize('lengths', [like_multi30k, like_wmt])
@pytest.mark.parametrize('seed', [0, 7])
def test_rows_are_at_least_96_percent_full(lengths, seed):
    """With 2,048 sentences to choose from, the last row of each block counted; the target side, which is the longer."""
    pairs = pairs_of(*lengths(3 * 2048, seed))
    source, target = fill(plan_of(pairs, block_size=2048, seed=seed), range(3))
    assert target >= 0.96
    assert source >= 0.90


@pytest.mark.parametrize(('source', 'target', 'side'), [([129], [5], 'source'), ([5], [129], 'target')])
def test_a_sentence_longer_than_a_row_is_refused(source, target, side):
    with pytest.raises(ValueError, match=f'a {side} sentence has 129 tokens; a row has 128 slots'):
        plan_of(pairs_of(source, target)).rows(0)


# Segmentations that are drawn.

WORDS = [
    *('the', 'quick', 'brown', 'fox', 'jumps', 'over', 'a', 'lazy', 'dog'),
    *('while', 'seven', 'wizards', 'mix', 'strong', 'potions'),
]
COUNT = 60
LINES = Pairs(
    *(
        [f'{side} {i} ' + ' '.join(np.random.default_rng(i).choice(WORDS, 3 + i % 5)) for i in range(COUNT)]
        for side in 'st'
    )
)


def trained(algorithm='bpe', languages=()):
    size = {'bpe': 200, 'unigram': 62}[algorithm]
    return SentencePieceTokenizer.train(
        LINES.sources + LINES.targets, vocab_size=size, algorithm=algorithm, byte_fallback=False, languages=languages
    )


BPE, UNIGRAM, TAGGED = trained(), trained('unigram'), trained(languages=['de', 'fr'])


@pytest.fixture(scope='module')
def prepared(tmp_path_factory):
    """A function that prepares LINES, text kept, by a tokenizer."""
    folder = tmp_path_factory.mktemp('text')
    files = [folder / 'train.en', folder / 'train.de']
    for file, lines in zip(files, (LINES.sources, LINES.targets), strict=True):
        file.write_text(''.join(f'{line}\n' for line in lines))

    def prepare(tokenizer, language=None, slots=128):
        how = cache.Settings(slots, slots, language, keep_text=True)
        return cache.cached_pairs(AlignedFiles('lines', [tuple(files)]), tokenizer, how, folder / 'cache')

    return prepare


def sampling_plan(pairs, tokenizer, *, alpha=0.2, tag=None, block_size=COUNT, seed=0, copies=1, **changes):
    how = Sampling(tokenizer, alpha, [[] if tag is None else [tag]] * copies)
    return plan_of(*[pairs] * copies, block_size=block_size, seed=seed, sampling=how, **changes)


def drawn(plan, blocks, tokenizer=BPE):
    """Ids of both sides of each example, by corpus and source text."""
    out = {}
    for example in (example for block in blocks for row in pairs_in(plan.rows(block)) for example in row):
        key = example.corpus, tokenizer.decode(example.source)
        assert key not in out
        out[key] = example.source.tolist(), example.target.tolist()
    return out


@pytest.mark.parametrize('tokenizer', [BPE, UNIGRAM], ids=['bpe', 'unigram'])
def test_a_segmentation_is_a_pure_function_of_seed_epoch_and_sentence(prepared, tokenizer):
    """Whatever block the sentence is in, whatever was drawn before: blocks of 60, 30, 20, 12 make the same epochs."""
    pairs = prepared(tokenizer)
    plan = sampling_plan(pairs, tokenizer)
    epochs = [drawn(plan, [epoch], tokenizer) for epoch in range(3)]
    assert all(len(epoch) == COUNT for epoch in epochs)
    for size in (30, 20, 12):
        for epoch in (2, 0):
            blocks = range(epoch * COUNT // size, (epoch + 1) * COUNT // size)
            again = sampling_plan(pairs, tokenizer, block_size=size)
            assert drawn(again, reversed(blocks), tokenizer) == epochs[epoch]


@pytest.mark.parametrize('tokenizer', [BPE, UNIGRAM], ids=['bpe', 'unigram'])
def test_segmentations_differ_from_epoch_to_epoch_seed_to_seed_and_corpus_to_corpus(prepared, tokenizer):
    pairs = prepared(tokenizer)
    plan = sampling_plan(pairs, tokenizer)
    epochs = [drawn(plan, [epoch], tokenizer) for epoch in range(2)]
    other_seed = drawn(sampling_plan(pairs, tokenizer, seed=1), [0], tokenizer)
    twice = drawn(sampling_plan(pairs, tokenizer, copies=2, block_size=2 * COUNT), [0], tokenizer)
    for key in epochs[0]:
        assert key in epochs[1]
    differing = {
        'epoch': sum(epochs[0][key] != epochs[1][key] for key in epochs[0]),
        'seed': sum(epochs[0][key] != other_seed[key] for key in epochs[0]),
        'corpus': sum(twice[0, text] != twice[1, text] for _, text in epochs[0]),
    }
    assert min(differing.values()) > 0.8 * COUNT, differing


def test_the_tag_stays_before_what_is_drawn_and_only_on_the_source_side(prepared):
    tag = TAGGED.tag_id('fr')
    examples = drawn(sampling_plan(prepared(TAGGED, 'fr'), TAGGED, tag=tag), [0], TAGGED)
    assert len(examples) == COUNT
    for source, target in examples.values():
        assert source.count(tag) == 1
        assert source[0] == tag
        assert tag not in target


def test_what_does_not_fit_a_row_when_drawn_comes_as_it_is(prepared):
    """A sentence must not be lost because it fell into more pieces: slots are those of the longest one."""
    pairs = prepared(BPE)
    source_slots, target_slots = (int(side.lengths.max()) for side in (pairs.source, pairs.target))
    free = drawn(sampling_plan(pairs, BPE, alpha=0.5), [0])
    plan = sampling_plan(pairs, BPE, alpha=0.5, source_slots=source_slots, target_slots=target_slots)
    tight, fell_back = drawn(plan, [0]), 0
    assert tight.keys() == free.keys()
    for (corpus_number, text), sides in tight.items():
        for side, slots, line in zip((0, 1), (source_slots, target_slots), (text, BPE.decode(sides[1])), strict=True):
            ids = free[corpus_number, text][side]
            assert sides[side] == (ids if len(ids) <= slots else BPE.encode([line])[0])
            fell_back += len(ids) > slots
    assert fell_back > COUNT // 2
