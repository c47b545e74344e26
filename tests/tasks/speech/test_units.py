"""Transcripts to ids and back, and what is kept of them in a folder."""

from pathlib import Path

import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.speech.config import UnitConfig
from flax_transformer.tasks.speech.units import Units

TEXTS = ['One two', 'two  three', 'six seven eight nine', 'zero four five']


def learned(algorithm: str) -> Units:
    return Units.learn(TEXTS, UnitConfig(algorithm=algorithm), 24)


@pytest.mark.parametrize('algorithm', ['words', 'characters', 'bpe', 'unigram'])
def test_units_come_back_as_text_and_from_a_folder(algorithm: str, tmp_path: Path) -> None:
    units = learned(algorithm)
    for text in TEXTS:
        ids = units.encode(text)
        assert 0 not in ids, '0 is the blank'
        assert units.decode(ids) == units.normalized(text)
        assert max(ids) < units.size == len(units.names)
        for word, first, last in units.words(ids):
            assert units.decode(ids[first : last + 1]) == word
    units.save(tmp_path)
    again = Units.load(tmp_path)
    assert (again.digest, again.names) == (units.digest, units.names)
    assert again.encode(TEXTS[0]) == units.encode(TEXTS[0])


def test_ids_that_no_text_has_are_words_of_their_own_or_nothing() -> None:
    """A softmax has rows for unk (1) and EOS (2); U+2581 is a space in pieces alone."""
    units = learned('bpe')
    h, s = (units.names.index(letter) for letter in 'hs')
    assert units.words([h, s, 1]) == [('hs', 0, 1), ('\u2047', 2, 2)]
    assert units.words([1, h, 2, s, 1, 1]) == [('\u2047', 0, 0), ('hs', 1, 3), ('\u2047', 4, 4), ('\u2047', 5, 5)]
    assert units.words([2]) == []
    letters = Units.learn(['a \u2581'], UnitConfig(algorithm='characters'), 24)
    assert letters.words(letters.encode('a \u2581')) == [('a', 0, 0), ('\u2581', 2, 2)]


@pytest.mark.parametrize(('algorithm', 'text', 'unknown'), [('words', 'two ten', {'ten'}), ('bpe', 'two!', {'!'})])
def test_what_training_did_not_have_is_named_and_left_out(algorithm: str, text: str, unknown: set[str]) -> None:
    units = learned(algorithm)
    assert units.unknown(text) == unknown
    assert units.decode(units.encode(text)) == 'two'
    assert not units.unknown('')
    assert units.encode(' ') == []


def test_damaged_units_are_refused(tmp_path: Path) -> None:
    learned('words').save(tmp_path)
    for damage in ('{', '[1]'):
        (tmp_path / 'units.json').write_text(damage)
        with pytest.raises(UserError, match='is damaged'):
            Units.load(tmp_path)
