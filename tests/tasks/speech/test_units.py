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
        words = [units.names[i].strip(' \u2581') for i in ids]
        numbers = units.word_numbers(ids)
        for number, word in enumerate(units.normalized(text).split()):
            assert ''.join(name for name, own in zip(words, numbers, strict=True) if own == number) == word
    units.save(tmp_path)
    again = Units.load(tmp_path)
    assert (again.digest, again.names) == (units.digest, units.names)
    assert again.encode(TEXTS[0]) == units.encode(TEXTS[0])


@pytest.mark.parametrize(
    ('algorithm', 'text', 'unknown', 'kept'),
    [
        ('words', 'two ten', {'ten'}, 'two'),
        ('bpe', 'two!', {'!'}, 'two'),
    ],
)
def test_what_training_did_not_have_is_named_and_left_out(
    algorithm: str, text: str, unknown: set[str], kept: str
) -> None:
    units = learned(algorithm)
    assert units.unknown(text) == unknown
    assert units.decode(units.encode(text)) == kept
    assert not units.unknown('')
    assert units.encode(' ') == []


@pytest.mark.parametrize('damage', ['{', '[1]'])
def test_damaged_units_are_refused(tmp_path: Path, damage: str) -> None:
    learned('words').save(tmp_path)
    (tmp_path / 'units.json').write_text(damage)
    with pytest.raises(UserError, match='damaged vocabulary'):
        Units.load(tmp_path)
    (tmp_path / 'units.json').unlink()
    with pytest.raises(UserError, match='is missing'):
        Units.load(tmp_path)
