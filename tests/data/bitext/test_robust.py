"""Changed copies keep the meaning: what is put in stands on both sides, and only what may differ does."""

import re
from collections import Counter

import numpy as np
import pytest

from flax_transformer.config import DataConfig
from flax_transformer.data.bitext import cache
from flax_transformer.data.bitext.cache import Settings, cached_pairs
from flax_transformer.data.bitext.corpus import Pairs
from flax_transformer.data.bitext.robust import with_changed_copies
from flax_transformer.data.bitext.sources import open_corpus
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer

GERMAN = Pairs(
    ["Tom's hand is cold.", 'I don\'t say "no" to Maria.', 'Where are the 30 dogs?', '', 'The Hand is red.'],
    [
        'Die Hand von Tom ist kalt.',
        'Ich sage Maria nicht „nein“.',
        'Wo sind die 30 Hunde?',
        'x',
        'Die Hand ist ein Buch.',
    ],
)
CHINESE = Pairs(['我认识 Tom。', '猫在哪里？'], ['I know Tom.', 'Where is the cat?'])
RUSSIAN = Pairs(['Где кошка?', 'У него 12 книг.'], ['Where is the cat?', 'He has 12 books.'])


def copies_of(pairs, times=400, share=1.0):
    """The copies made of so many repetitions, each with the pair that its number names."""
    repeated = Pairs(pairs.sources * times, pairs.targets * times)
    count = len(repeated)
    changed, numbers = with_changed_copies(repeated, np.arange(count), share)
    assert (changed.sources[:count], changed.targets[:count]) == (repeated.sources, repeated.targets)
    assert numbers[:count].tolist() == list(range(count))
    rows = zip(changed.sources[count:], changed.targets[count:], numbers[count:].tolist(), strict=True)
    return [(source, target, repeated.sources[i], repeated.targets[i]) for source, target, i in rows]


def kind_of(source, target, old_source, old_target):
    """What was changed; raises AssertionError if it is nothing that a copy may differ in."""
    if source == target:
        return 'copied'
    if target == old_target:
        assert re.sub(r'\W', '', source).lower() == re.sub(r'\W', '', old_source).lower()
        return 'quotes' if source.lower() != old_source.lower() else 'source case'
    if source == old_source.upper() != old_source:
        assert target == old_target.upper()
        return 'capitals'
    words, old_words = re.sub(r'\W', '', source), re.sub(r'\W', '', old_source)
    if words == old_words:
        assert re.sub(r'\W', '', target) == re.sub(r'\W', '', old_target)
        return 'signs'
    if source.startswith(old_source) and target.startswith(old_target) and words.startswith(old_words):
        return 'two pairs'
    ours, theirs = (Counter(re.findall(r'[^\s,:.!?。？"()–]+', line)) for line in (source, target))
    olds = Counter(re.findall(r'[^\s,:.!?。？"()–]+', f'{old_source} {old_target}'))
    added = {word for word in ours if word not in olds}
    assert added, (source, target)
    assert added <= {*theirs} | {word for word in ours if "'" in word}, (source, target)
    return 'span'


@pytest.mark.parametrize('pairs', [GERMAN, CHINESE, RUSSIAN], ids=['en-de', 'zh-en', 'ru-en'])
def test_every_copy_differs_in_what_it_may_and_in_the_same_way_on_both_sides(pairs):
    kinds = Counter(kind_of(*row) for row in copies_of(pairs))
    expected = {'copied', 'signs', 'two pairs', 'span', 'source case'}
    if pairs is GERMAN:
        expected |= {'quotes', 'capitals'}
    assert {kind for kind, times in kinds.items() if times >= 5} >= expected


def test_a_name_gets_another_in_its_place_but_not_a_word_that_both_languages_have():
    renamed = [row for row in copies_of(GERMAN) if re.match(r'Die Hand von (?!Tom\b).+ ist kalt\.$', row[1])]
    assert len({row[1] for row in renamed}) > 30
    for source, target, *_ in renamed:
        name = target.removeprefix('Die Hand von ').removesuffix(' ist kalt.')
        assert source == f"{name}'s hand is cold."
    assert not any(re.fullmatch(r'Die (?!Hand).* ist rot\.', row[1]) for row in copies_of(GERMAN))


def test_copies_are_a_share_of_the_pairs_and_the_same_each_time():
    some = copies_of(GERMAN, share=0.2)
    assert abs(len(some) / 2000 - 0.2) < 0.03
    assert some == copies_of(GERMAN, share=0.2)
    assert not copies_of(GERMAN, share=0.0)
    assert len(with_changed_copies(Pairs([], []), np.arange(0), 0.2)[0]) == 0  # a table's header alone


def test_copies_are_cached_with_the_numbers_of_their_pairs_and_not_where_they_are_off(tmp_path, monkeypatch):
    for language, lines in (('en', GERMAN.sources), ('de', GERMAN.targets)):
        (tmp_path / f'train.{language}').write_text('\n'.join(lines * 40) + '\n', encoding='utf-8')
    tokenizer = SentencePieceTokenizer.train([*GERMAN.sources, *GERMAN.targets], vocab_size=310)
    corpus = open_corpus('train.{lang}', DataConfig(root=str(tmp_path)))

    def prepared(folder, share):
        return cached_pairs(corpus, tokenizer, Settings(200, 200, robust=share), tmp_path / folder)

    plain, robust = prepared('cache', 0.0), prepared('cache', 0.5)
    assert len(plain) == 160
    assert 200 < len(robust) < 280
    assert robust.num_blank == 40
    assert robust.numbers.max() < 200
    assert prepared('again', 0.5).fingerprint == robust.fingerprint != plain.fingerprint
    monkeypatch.setattr(cache, 'GRAMMAR_DIGEST', 'of another version')
    kept = {*(tmp_path / 'cache').iterdir()}
    prepared('cache', 0.5)
    assert {*(tmp_path / 'cache').iterdir()} > kept


@pytest.mark.parametrize('share', [-0.1, 1.5])
def test_a_share_is_between_0_and_1(share):
    with pytest.raises(ValueError, match='robust'):
        DataConfig(robust=share)
