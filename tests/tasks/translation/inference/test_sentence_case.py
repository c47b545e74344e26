"""Lines that are written in capitals, in small letters or as headlines reach the model as sentences."""

import pickle

import pytest
from translators import Ascii

from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.tasks.translation.glossary import Glossary
from flax_transformer.tasks.translation.inference.literals import Literals
from flax_transformer.tasks.translation.inference.marked import Marked
from flax_transformer.tasks.translation.words import Lexicon, TrainingWords

ENGLISH = 'at door in is London Mrs NATO open the Tom we with works'
GERMAN = 'am auf der Fuß geht Haus in ist London Mann muss Straße und weiß wir'
WORDS = TrainingWords(
    {language: Lexicon(language, text.split()) for language, text in (('en', ENGLISH), ('de', GERMAN))}
)


def marked(
    language: str, text: str, glossary: Glossary | None = None, literals: str = 'kept'
) -> tuple[str, list[str], str]:
    """What the model gets before stand-ins come in, the literals, and how a translation is written out."""
    line = Literals(Ascii(), language, DecodingConfig(literals=literals), WORDS).mark(text, glossary)
    if not isinstance(line, Marked):
        return line, [], 'Abc'
    return line.text, [span.raw for span in line.spans], line.escape('Abc')


@pytest.mark.parametrize(
    ('language', 'text', 'sentence', 'literals'),
    [
        ('en', 'TOM WORKS AT NATO. WE OPEN THE DOOR!', 'Tom works at NATO. We open the door!', []),
        ('en', 'WE OPEN OKONKWO & THE ZEBRA-20 DOOR', 'We open Okonkwo & the Zebra-20 door', ['OKONKWO', 'ZEBRA-20']),
        ('de', 'DER MANN MUSS AUF DER STRASSE', 'Der Mann muss auf der Straße', []),
        ('de', 'UND ANNA MÜLLER', 'Und Anna Müller', ['MÜLLER']),
        ('en', 'TOM COOK WORKS', 'Tom Cook works', ['COOK']),
        ('de', 'UND ANNA WEISS', 'Und Anna weiß', ['ANNA']),
        ('de', 'DER FUSS IST IN SEATTLE', 'Der Fuß ist in Seattle', ['SEATTLE']),
    ],
)
def test_capitals_come_back_as_capitals(language: str, text: str, sentence: str, literals: list[str]) -> None:
    assert marked(language, text) == (sentence, literals, 'ABC')


@pytest.mark.parametrize(
    ('language', 'text', 'sentence'),
    [
        ('de', 'der mann ist am haus. wir und london', 'der Mann ist am Haus. Wir und London'),
        ('de', 'der mann ist am haus.', 'Der Mann ist am Haus.'),
        ('de', 'der zyx ist am haus', 'der Zyx ist am Haus'),
        ('de', 'npm zyx haus', None),  # mostly other words
        ('de', 'anna müller ist am haus auf der straße', 'Anna Müller ist am Haus auf der Straße'),
        ('de', 'hallo der mann ist', 'Hallo der Mann ist'),
        ('de', 'haus', None),
        ('de', '{x}haus und der mann', '{x}haus und der Mann'),
        ('en', 'tom is in london', None),
        ('de', 'Der Mann Ist Am Haus', 'Der Mann ist am Haus'),
        ('en', 'Tom Works In London With The Zyx', 'Tom works in London with the Zyx'),
    ],
)
def test_other_lines_become_sentences(language: str, text: str, sentence: str | None) -> None:
    assert marked(language, text)[::2] == (sentence or text, 'Abc')


@pytest.mark.parametrize(
    ('text', 'sentence', 'literals'),
    [
        ('WE OPEN 12345 & OKONKWO', 'We open 12345 & Okonkwo', ['OKONKWO']),
        ('Zyx is with Mrs. Open in 12 🎄', 'Zyx is with Mrs. Open in 12 🎄', ['Zyx', 'Open']),
        ('12:30', '12:30', []),
        ('WE OPEN TOM@LONDON.DE', 'We open TOM@LONDON.DE', []),
    ],
)
def test_names_and_capitals_are_cared_for_where_other_literals_are_translated(
    text: str, sentence: str, literals: list[str]
) -> None:
    assert marked('en', text, literals='translated')[:2] == (sentence, literals)


def test_terms_stay_as_the_glossary_has_them() -> None:
    glossary = Glossary({'NATO': ['Nato'], 'DOOR': ['Tor'], 'london': ['London']})
    assert marked('en', 'OPEN THE DOOR IN LONDON WITH NATO', glossary)[0] == 'Open the DOOR in London with NATO'


def test_terms_are_no_names() -> None:
    for text in ('UND ANNA MÜLLER', 'anna müller ist am haus auf der straße'):
        assert marked('de', text)[1] == ['MÜLLER' if text.isupper() else 'Müller']
        assert marked('de', text, Glossary({'Müller': ['Miller']}))[1] == []


@pytest.mark.parametrize('words', [None, WORDS])
def test_a_copy_from_another_process_marks_the_same(words: TrainingWords | None) -> None:
    literals = Literals(Ascii(), 'de', DecodingConfig(), words)
    other = pickle.loads(pickle.dumps(literals))
    assert other.mark('der mann ist 12 am haus') == literals.mark('der mann ist 12 am haus')
