"""Names of persons, as far as a title or first name says that they are: Mr. Smith, Frau Dr. Müller, Anna Schmidt."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from .marked import edited

# What follows a title and is no name: Mr President, Frau Kollegin, Herr Bürgermeister.
_OFFICE = (
    'president|chair|speaker|commissioner|minister|prime|vice|secretary|ambassador|doctor|professor|mayor|justice|deputy|'
    'senator|governor|general|präsident|vorsitz|kommissar|abgeordnet|kolleg|botschafter|bundes|doktor|lehrer|sekretär|'
    'berichterstatter|kanzler|bürgermeister|direktor|anwalt|anwält|ober\\b|und\\b|oder\\b'
)
_WORD = r"[^\W\d_a-zäöüß](?:[^\W\d_]|[-'’](?=[^\W\d_a-zäöüß]))+(?![\w\u0300-\u036f])"
_PARTICLE = r'(?i:v[oa]n(?:[ ]de[nr]?)?|de|di|da|le|la)[ ]'
# Headlines have these in capitals.
_NO_NAME = 'And|Are|At|Can|For|From|Had|Has|In|Is|Of|On|Or|Says|The|To|Was|Will|With'
_MONTH = 'January|February|March|April|May|June|July|August|September|October|November|December'
# To a German name no second word belongs: it may be any noun.
_PERSON = re.compile(
    rf"""
    \b(?:(?P<english>Mrs?\.?|Ms\.?)|(?P<german>Herrn?|Frau))[ ](?:(?:Dr|Prof)\.[ ])*
    (?P<name>(?:[A-Z]\.[ ])*(?:{_PARTICLE})?(?!\w*(?i:{_OFFICE})){_WORD}
    (?(english)(?:[ ](?:[A-Z]\.[ ])?(?:{_PARTICLE})?(?!\w+day\b|(?:{_MONTH}|{_NO_NAME})\b){_WORD})?))
    | \bDr\.[ ](?P<doctor>(?!\w*(?i:{_OFFICE})){_WORD})
    """,
    re.X,
)
# After these Frau and Herr are nouns, and what follows may be another: of my wife (the) flowers.
DETERMINER = re.compile(
    r'\b(?:(?:d(?:er|ie|as|es|e[mn])|[mdsk]?eine?[mnrs]?|ihre?[mnrs]?|unse?re?[mnrs]?|eue?re?[mnrs]?|dies\w+|jede\w?|'
    r'welche\w?|manche\w?|alle\w?|jene\w?|beide\w?)(?:[ ][a-zäöüß]+e[mnrs]?)?|als|zu[mr])[ ]$',
    re.I,
)
# Frequent German and English first names, with Familie and Firma, and surnames that a model takes for other words.
_FREQUENT = json.loads(Path(__file__).with_name('persons.json').read_text('utf-8'))
_GIVEN = {*' '.join(_FREQUENT['given']).split()}
_SURNAMES = {*' '.join(_FREQUENT['surnames']).split()}
# The second word may be the first of another pair.
_PAIR = re.compile(r"(?<![\w'’-])([A-ZÄÖÜ][\w-]++)[ \u00a0](?:[A-Z]\.[ \u00a0])?(?=([^\W\d_][\w-]++)(?!['’][^\Ws]))")
_VERBS = {'weiß'}  # more frequent than the surname
_STREET = re.compile(r'\d[ ](?:[A-Z]\w+[ ])+$')
_NEAR = 60  # characters


def surnames(text: str) -> Iterator[tuple[int, int]]:
    """Yields the start and end of each frequent surname after a frequent first name, Familie or Firma."""
    for match in _after_first_names(text):
        parts = match[2].split('-')
        parts[-1] = parts[-1] if parts[-1] in _SURNAMES else parts[-1].removesuffix('s')  # Müllers Haus
        if _SURNAMES.issuperset(parts):
            yield match.span(2)


def with_surnames(text: str) -> str:
    """The text with a capital for each frequent surname in small letters after a frequent first name."""
    pairs = [match for match in _after_first_names(text) if match[2] not in _VERBS]
    found = [match for match in pairs if match[2].capitalize() in _SURNAMES]
    return edited(text, [(*match.span(2), match[2].capitalize()) for match in found])


def _after_first_names(text: str) -> Iterator[re.Match[str]]:
    return (match for match in _PAIR.finditer(text) if match[1].rpartition('-')[2] in _GIVEN)


def persons(text: str) -> Iterator[tuple[int, int]]:
    """Yields the start and end of each name that follows a title."""
    for match in _PERSON.finditer(text):
        before = max(match.start() - _NEAR, 0), match.start()
        if match['german'] and DETERMINER.search(text, *before):
            continue
        if match['doctor']:
            if not _STREET.search(text, *before):
                yield match.span('doctor')
        else:
            yield match.span('name')
