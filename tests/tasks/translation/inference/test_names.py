"""Names that the training text lacks are told from other words."""

import re
from pathlib import Path

import pytest

from flax_transformer import UserError
from flax_transformer.tasks.translation import preparation
from flax_transformer.tasks.translation import words as known_words
from flax_transformer.tasks.translation.inference.names import Names
from flax_transformer.tasks.translation.run import LoadedRun
from flax_transformer.tasks.translation.words import FILE, Lexicon, TrainingWords

ENGLISH = "the brother of President Tom lives in London; he works and I know that we'll be there at night: creation"
GERMAN = 'Sie wohnt in London und arbeitet bei einer Bank; das Haus der Familie; auch wir kennen das Wasser'
TEXTS = ('en', ENGLISH), ('de', GERMAN)
WORDS = TrainingWords(
    {language: Lexicon(language, sorted({*re.findall(r'\w+', text.lower())})) for language, text in TEXTS}
)

STARTS = {
    'no run': None,
    'one without': LoadedRun(None, None, None),
    'one with': LoadedRun(None, None, None, WORDS),
}


@pytest.mark.parametrize(
    ('language', 'text', 'names'),
    [
        ('en', 'Okonkwo works at Siemens.', ['Okonkwo', 'Siemens']),
        ('en', 'We know Ngozi Adichie, of Lagos.', ['Ngozi Adichie', 'Lagos']),
        ('en', "Siobhan's brother; O'Rourke-Brennan; Łódź", ['Siobhan', "O'Rourke-Brennan", 'Łódź']),
        ('en', 'Londons: Creations', []),  # forms of words that it has
        ('en', "We'll know. NATO and we. I'll there", ['NATO']),
        ('en', 'WE KNOW SIOBHAN. WE', []),  # not in capitals
        ('en', "I like HTML, I'M here. I DON'T know.", ['HTML']),
        ('en', 'Brothers, Siobhán Brothersen', ['Siobhán Brothersen']),  # the second goes on with the name
        ('en', 'Recalibrate the night; Configurable night', ['Configurable']),
        ('en', 'Recalibrate the night. Siemens works.', ['Siemens']),  # a verb begins
        ('en', 'We know Krypto\xadgraph', []),  # half of a word is none
        ('en', 'Nightễ', ['Nightễ']),  # no word has such a letter
        ('de', 'Wir kennen Okonkwo, Nguyễn und Lindqvist.', ['Okonkwo', 'Nguyễn', 'Lindqvist']),
        ('de', 'Der Torf und das Moratorium', []),  # nouns with an article
        ('de', 'Verhaftungen, Hochwasser, Familienfeier', []),  # nouns by ending, and composed of known words
        ('de', 'Verquirlen Sie Eier. Siemens arbeitet.', ['Eier', 'Siemens']),
    ],
)
def test_names_are_found(language: str, text: str, names: list[str]) -> None:
    assert [text[start:end] for start, end, _ in Names(language, WORDS.get(language))(text)] == names


def test_where_a_first_name_cannot_stand_a_surname_does() -> None:
    text = "Tom and Okonkwo know President Adichie and Siobhan's brother."
    assert [kind for *_, kind in Names('en', WORDS.get('en'))(text)] == ['name', 'person', 'person']


def test_names_that_are_seldom_there_count_as_unseen_where_capitals_tell_names(monkeypatch) -> None:
    monkeypatch.setattr(known_words, '_FEWEST', 1)
    lines = ['We saw Kowalski. Suddenly Tom, then Tom and Tom.', 'we suddenly']
    words = TrainingWords.of([('en', lines), ('de', lines)])
    assert words.get('en').written == ['and', 'saw', 'suddenly', 'then', 'Tom', 'we']
    assert words.get('de').has_word('kowalski')


def test_of_a_small_corpus_no_words_are_kept(tmp_path: Path) -> None:
    words = TrainingWords.of([('en', ['Tom is here.'])])
    assert words.get('en') is None
    words.write(tmp_path)
    assert TrainingWords.read(tmp_path) is None


def test_a_run_that_starts_from_another_knows_the_words_of_both() -> None:
    joined = WORDS.joined(TrainingWords({'en': Lexicon('en', ['zebra']), 'fr': Lexicon('fr', ['zèbre'])}))
    assert joined.get('en').has_word('zebra')
    assert joined.get('en').has_word('brother')
    assert joined.get('fr') is None  # the start's French words are not among these


def test_words_are_kept_as_they_are_often_written_within_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_words, '_FEWEST', 1)
    lines = ['Open the NATO door, the door, or DOOR. But', 'THE DOOR', 'Open. (but wir essen das Essen, Essen)']
    words = TrainingWords.of([('de', [*lines, *['a door'] * 15])])
    assert words.get('de').written == ['a', 'but', 'das', 'door', 'Essen', 'essen', 'NATO', 'Open', 'or', 'the', 'wir']


@pytest.mark.parametrize(
    ('word', 'german', 'english'),
    [
        ('weg', ['Weg', 'weg'], ['Weg', 'weg']),
        ('fenster', ['Fenster'], ['Fenster']),
        ('fenstern', ['Fenstern'], ['Fenstern']),
        ('dachfenster', ['Dachfenster'], ['Dachfenster']),
        ('gesehenen', ['gesehenen', 'Gesehenen'], ['gesehenen', 'Gesehenen']),  # or a name
        ('gesehung', ['Gesehung'], ['gesehung', 'Gesehung']),  # ends as a German noun
        ('zyx', ['Zyx'], ['Zyx']),
        ('gese', ['Gese'], ['Gese']),  # too short to be like another
    ],
)
def test_an_unknown_word_is_written_as_one_like_it(word: str, german: list[str], english: list[str]) -> None:
    written = ['Fenster', 'gesehen', 'Weg', 'weg']
    assert Lexicon('de', written).forms(word) == german
    assert Lexicon('en', written).forms(word) == english


def test_words_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert TrainingWords.read(tmp_path) is None
    WORDS.write(tmp_path)
    read = TrainingWords.read(tmp_path)
    for language, _ in TEXTS:
        assert read.get(language).written == WORDS.get(language).written
    assert read.get('fr') is None
    (tmp_path / FILE).write_bytes(b'en a \xff')
    with pytest.raises(UserError, match=f'{FILE} is damaged .*; remove it'):
        TrainingWords.read(tmp_path)


def test_a_run_that_starts_from_one_without_words_keeps_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own corpus has few of the words that the model knows."""
    monkeypatch.setattr(preparation, '_sources', lambda data: [('en', ['Tom is here'])])
    monkeypatch.setattr(known_words, '_FEWEST', 1)
    started = {name: preparation._words_of(None, start) for name, start in STARTS.items()}
    assert started['no run'].get('en').has_word('here')
    assert started['one without'] is None
    assert all(started['one with'].get('en').has_word(word) for word in ('here', 'brother'))
