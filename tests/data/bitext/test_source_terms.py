"""Terms in sources of training: which words, where, and that nothing else changes."""

import functools
from collections import Counter

import numpy as np
import pytest

from flax_transformer.config import DataConfig
from flax_transformer.data.bitext.cache import Settings, cached_pairs
from flax_transformer.data.bitext.corpus import Pairs
from flax_transformer.data.bitext.sources import open_corpus
from flax_transformer.data.bitext.terms import Terms
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.text.term_marks import marked, unmarked
from flax_transformer.text.tokenizer import MARKS


def made(count: int, ending: str = '') -> tuple[Pairs, dict[str, str]]:
    """Sentences of words that have one translation each, perhaps in some with an ending, and which it is."""
    rng = np.random.default_rng(0)
    syllables = ['ba', 'ke', 'li', 'no', 'su', 'ta', 'ri', 'mo']
    words = np.array(sorted({''.join(rng.choice(syllables, 4)) for _ in range(1500)}))
    translations = {word: word[::-1].capitalize() for word in words.tolist()}
    chosen = [rng.choice(words, 5, replace=False).tolist() for _ in range(count)]
    forms = [[translations[word] + ending * (rng.random() < 0.4) for word in reversed(line)] for line in chosen]
    targets = [' '.join(line) + '.' for line in forms]
    return Pairs([f'{" ".join(line)}.' for line in chosen], targets), translations


PAIRS, TRANSLATIONS = made(2000)
TOKENIZER = SentencePieceTokenizer.train([*PAIRS.sources, *PAIRS.targets], vocab_size=340, marks=MARKS)


@functools.cache
def lines_with_terms(share: float, most: int = 100) -> list[list[int]]:
    terms = Terms([PAIRS], TOKENIZER, share)
    ids, lengths = terms.marked(PAIRS, np.arange(len(PAIRS)), most)
    return [line.tolist() for line in np.split(ids, np.cumsum(lengths)[:-1])]


def forms_in(line: list[int]) -> list[str]:
    _, begin, end = TOKENIZER.marks
    starts = [i + 1 for i, piece in enumerate(line) if piece == begin]
    return [TOKENIZER.decode(line[start : line.index(end, start)]).strip() for start in starts]


def test_terms_stand_after_the_words_that_they_translate() -> None:
    begin, translated, end = TOKENIZER.marks
    plain = TOKENIZER.encode(PAIRS.sources)
    found = 0
    for line, expected in zip(lines_with_terms(1.0), plain, strict=True):
        assert unmarked(line, TOKENIZER.marks)[0] == expected
        assert 0 <= line.count(begin) == line.count(translated) == line.count(end) <= 3
        while begin in line:
            line = line[line.index(begin) + 1 :]
            middle, last = line.index(translated), line.index(end)
            word, translation = (TOKENIZER.decode(part) for part in (line[:middle], line[middle + 1 : last]))
            assert TRANSLATIONS[word.strip()] == translation.strip()
            found += 1
    assert found > 1000


def test_a_share_of_the_sources_has_terms_and_each_time_the_same() -> None:
    lines = lines_with_terms(0.2)
    assert lines == lines_with_terms.__wrapped__(0.2)
    assert lines_with_terms(0.0) == TOKENIZER.encode(PAIRS.sources)
    most = sum(TOKENIZER.marks[0] in line for line in lines_with_terms(1.0))
    assert 0.15 * most < sum(TOKENIZER.marks[0] in line for line in lines) < 0.25 * most


def test_a_source_that_terms_would_make_too_long_stays_without() -> None:
    plain = TOKENIZER.encode(PAIRS.sources)
    free, bounded = lines_with_terms(1.0), lines_with_terms(1.0, most=40)
    assert bounded == [terms if len(terms) <= 40 else line for line, terms in zip(plain, free, strict=True)]
    assert any(len(line) > 40 for line in free)


def test_some_terms_have_the_usual_form_where_the_target_has_another() -> None:
    pairs, translations = made(2000, 'en')
    terms = Terms([pairs], TOKENIZER, 1.0)
    ids, lengths = terms.marked(pairs, np.arange(len(pairs)), 100)
    kinds = Counter()
    for line, target in zip(np.split(ids, np.cumsum(lengths)[:-1]), pairs.targets, strict=True):
        for term in forms_in(line.tolist()):
            assert term.removesuffix('en') in translations.values()
            kinds[term in target.rstrip('.').split(), term.endswith('en')] += 1
    assert 0.08 < kinds[False, False] / (kinds[False, False] + kinds[True, True]) < 0.4
    assert kinds[True, False] > kinds[False, False]
    assert not kinds[False, True]


def test_marks_are_no_text_and_the_vocabulary_without_them_is_as_before() -> None:
    text = 'a <term> b <is> c </term>'
    assert not {*TOKENIZER.marks} & {*TOKENIZER.encode([text])[0]}
    assert TOKENIZER.decode(TOKENIZER.encode([text])[0]) == text
    assert TOKENIZER.decode([*TOKENIZER.marks]) == ''
    assert {*TOKENIZER.marks} <= {*TOKENIZER.tags_to_ban}
    plain = SentencePieceTokenizer.train([*PAIRS.sources, *PAIRS.targets], vocab_size=340)
    assert (plain.marks, plain.tags_to_ban) == ((), ())


def test_what_belongs_to_a_term_belongs_to_its_words() -> None:
    line, places = marked([4, 5, 6, 7, 1], [(0, 1), (2, 4)], [[8, 9], [10]], (30, 31, 32))
    assert line == [30, 4, 31, 8, 9, 32, 5, 30, 6, 7, 31, 10, 32, 1]
    assert places == [(0, 6), (7, 13)]
    assert unmarked(line, (30, 31, 32)) == ([4, 5, 6, 7, 1], [0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 4])
    assert unmarked([4, 1], ()) == ([4, 1], [0, 1])


def test_words_that_share_a_piece_give_it_once() -> None:
    """As "can" and "t", or two words of Chinese."""
    line, places = marked([4, 5, 1], [(0, 1), (0, 1), (1, 2)], [[8], [9], [10]], (30, 31, 32))
    assert line == [30, 4, 31, 8, 32, 30, 5, 31, 10, 32, 1]
    assert places == [(0, 5), (0, 5), (5, 10)]


def test_terms_are_cached_apart_and_segmentations_are_not_redrawn(tmp_path) -> None:
    for language, lines in (('en', PAIRS.sources), ('de', PAIRS.targets)):
        (tmp_path / f'train.{language}').write_text('\n'.join(lines) + '\n', encoding='utf-8')
    corpus = open_corpus('train.{lang}', DataConfig(root=str(tmp_path)))
    kept = [cached_pairs(corpus, TOKENIZER, Settings(60, 60, terms=share), tmp_path / 'cache') for share in (0.0, 0.5)]
    assert len(kept[0]) == len(kept[1]) == 2000
    assert len(kept[1].source.ids) > len(kept[0].source.ids)
    np.testing.assert_array_equal(kept[0].target.ids, kept[1].target.ids)
    with pytest.raises(ValueError, match='bpe_dropout'):
        DataConfig(terms=0.1, bpe_dropout=0.1)
