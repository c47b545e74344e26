"""Detectors alone: what they must find, and what is no fault though it looks like one."""

import numpy as np
import pytest
from clean_corpus import clean_corpus

from flax_transformer.data.audit import alignment, language, lines
from flax_transformer.data.audit.pairs import inspect, learn
from flax_transformer.data.bitext.corpus import Records
from flax_transformer.data.repeats import contradictions, keys_of, pair_keys, repeated, shared


def lengths_of(pairs: int, seed: int = 0, noise: float = 0.15) -> np.ndarray:
    """Lengths of sides that go with each other, as those of translations do."""
    rng = np.random.default_rng(seed)
    source = rng.lognormal(3.5, 0.5, pairs)
    target = source * rng.lognormal(0.1, noise, pairs)
    return np.stack([source, target]).round()


def rolled(lengths, first, last, by):
    lengths = lengths.copy()
    lengths[1, first:last] = np.roll(lengths[1, first:last], by)
    return lengths


@pytest.mark.parametrize('seed', range(2))
@pytest.mark.parametrize('by', [-1, 1])
@pytest.mark.parametrize(('first', 'last'), [(300, 500), (0, 3000), (2700, 3000)])
def test_a_stretch_shifted_by_one_is_found_once_with_its_ends(seed, by, first, last):
    (found,) = alignment.shifted_stretches(rolled(lengths_of(3000, seed), first, last, by))
    assert found.offset == by
    assert abs(found.first - first) <= 15
    assert abs(found.last - last) <= 15


@pytest.mark.parametrize('seed', range(2))
def test_lines_that_are_in_place_or_fit_nowhere_are_no_shift(seed):
    aligned = lengths_of(3000, seed)
    assert alignment.shifted_stretches(aligned) == []
    assert alignment.shifted_stretches(rolled(aligned, 500, 2500, 2)) == []
    order = np.arange(3000)
    order[500:2500] = np.random.default_rng(seed).permutation(order[500:2500])
    assert alignment.shifted_stretches(np.stack([aligned[0], aligned[1][order]])) == []
    assert alignment.shifted_stretches(aligned[:, np.argsort(aligned[0], kind='stable')]) == []
    spaced = np.zeros((2, 3000), int)
    spaced[:, ::2] = aligned[:, ::2]  # every other line is blank: no line has a neighbor on the other side
    assert alignment.shifted_stretches(spaced) == []


@pytest.mark.parametrize(
    ('source', 'target', 'differ'),
    [
        ('In 1987 it rained.', 'Im Jahr 1978 regnete es.', True),
        ('It has 1,234.50 metres.', 'Es hat 1.234,50 Meter.', False),
        ('10 000 stars', '10000 Sterne', False),
        ('10\u00a0000 stars', "10'000 Sterne", False),
        ('He has 3 dogs and 14 cats.', 'Er hat drei Hunde und 14 Katzen.', False),
        ('about 100', 'etwa hundert', False),
        ('in 1987', 'damals', True),
        ('14 and 15', '15 und 14', False),
        ('14 and 15', '14 und 16', True),
        ('007', '7', False),
        ('٣٤ apples', '34 Äpfel', False),
    ],
)
def test_numbers_that_differ(source, target, differ):
    assert lines.numbers_differ(source, target) is differ


def shown_by(check, *lines: str) -> list[str]:
    return [line for line in lines if check(line)]


def test_entities_and_tags_and_what_is_none():
    harmless = ('AT&T; R&D', 'a < b > c', 'x &y; z', 'Q&A', '<3', '&#1', 'if (a<b) c>d', 'clean')
    assert shown_by(lines.has_entity, *harmless) == []
    faulty = ['it&apos;s', 'a&#39;b', 'a &nbsp; b', '&#x27;', 'a<br>b', '</p>', '<a href="x">y']
    assert shown_by(lines.has_entity, *faulty) == faulty


def test_mojibake_and_what_is_none():
    harmless = ('„Ä“ und „Ö“', 'VOILÀ…', 'CAFÉ”', 'São Tomé', 'Ñandú', 'naïve Ærø', 'À\u00a0côté', 'Ã', 'clean')
    assert shown_by(lines.has_mojibake, *harmless) == []
    faulty = [text.encode().decode('cp1252', 'ignore') for text in ('schön', 'größer', 'it’s', '“yes”', 'œuvre', '€ 5')]
    faulty += ['Привет'.encode().decode('latin-1'), 'caf\ufffd']
    assert shown_by(lines.has_mojibake, *faulty) == faulty


def test_controls_and_joiners_that_belong_to_a_script():
    harmless = ('می\u200cخواهم', 'क्\u200dष', 'family 👨\u200d👩\u200d👧', 'a\tb', 'plain')
    assert shown_by(lines.has_control, *harmless) == []
    faulty = ['a\x00b', 'a\u200bb', '\ufeffa', 'so\u00adft', '\u202eabc', '\ue000', 'a\x85b']
    assert shown_by(lines.has_control, *faulty) == faulty


def test_odd_spaces_and_what_is_none():
    assert shown_by(lines.has_odd_space, '', 'a', 'a  b', '😀') == []
    faulty = [' ', '😀 ', 'b\u2009c', '\t', 'a\tb', ' a']
    assert shown_by(lines.has_odd_space, *faulty) == faulty


def test_keys_ignore_case_spaces_and_form_and_nothing_else():
    first, same, *others = keys_of(['Ein  Café ', 'ein Cafe\u0301', 'a b', 'ab', 'a b.', 'a c'])
    assert first == same
    assert len({first, *others}) == 5
    assert keys_of(['', ' \u00a0', 'a']).tolist()[:2] == [0, 0]


def test_repeated_pairs_as_a_set_finds_them():
    rng = np.random.default_rng(0)
    sources = [f'{i}' for i in rng.integers(1, 30, 300)]
    targets = [f'{i}' for i in rng.integers(1, 8, 300)]
    keys = [keys_of(side) for side in (sources, targets)]
    pairs = list(zip(sources, targets, strict=True))
    assert repeated(pair_keys(*keys)).tolist() == [i for i, pair in enumerate(pairs) if pair in pairs[:i]]
    assert contradictions(*keys).tolist() == [
        i for i, pair in enumerate(pairs) if pair not in pairs[:i] and pair[0] in sources[:i]
    ]
    others = pair_keys(*(side[:20] for side in keys))
    assert shared(pair_keys(*keys), others).tolist() == [i for i, pair in enumerate(pairs) if pair in pairs[:20]]


@pytest.mark.parametrize(
    ('line', 'expected', 'foreign'),
    [
        ('The committee has not reached a decision yet.', 'en', False),
        ('Der Ausschuss hat noch keine Entscheidung getroffen.', 'en', True),
        ("Le comité n'a pas encore pris de décision.", 'de', True),
        ('Die Kommission hat entschieden.', 'de_AT', False),
        ('Hallo Welt', 'en', False),  # too short to say
        ('Odbor jeszcze nie podjął decyzji w tej sprawie.', 'pl-PL', False),
    ],
)
def test_a_line_is_foreign_only_when_that_is_sure(line, expected, foreign):
    assert language.is_foreign(line, expected) is foreign


def test_languages_that_the_library_does_not_know_are_not_judged():
    assert language.is_known('de')
    assert language.is_known('pt_BR')
    assert not language.is_known('in')
    assert not language.is_known('klingon')


SETTINGS = {'max_ratio': 4.0, 'slots': (99, 99), 'tokenizer': None}


def facts_of(*pairs: tuple[str, str]):
    sources, targets = ([text.encode() for text in side] for side in zip(*pairs, strict=True))
    records = Records(sources, targets)
    return inspect(records, learn([records], None, **SETTINGS))


def test_a_copy_has_letters():
    assert facts_of(('1984', '1984'), ('...', '...'), ('Tom', 'tom '), ('a', 'b')).rows['copy'] == {2: 0}


def test_a_length_ratio_is_extreme_beside_what_is_usual_in_the_corpus():
    """A target of a fifth of its source's characters is usual in some scripts; one as long as its source is not."""
    usual = [('w' * 100, 'z' * 20)] * 30
    assert facts_of(*usual, ('w' * 100, 'z' * 130)).rows['length_ratio'] == {30: 0}
    assert 'length_ratio' not in facts_of(*usual, ('w' * 100, 'z' * 100), ('w', 'zzzz')).rows


def test_without_a_tokenizer_words_and_the_end_count_as_tokens():
    assert facts_of(('w ' * 98, 'w'), ('w ' * 99, 'w'), ('w', '  w' * 99)).rows['too_long'] == {1: 0, 2: 1}


def test_the_library_has_a_say_where_a_pair_looks_swapped(monkeypatch):
    train = [tuple(line.decode() for line in pair) for pair in zip(*clean_corpus()['train'], strict=True)]
    train[7] = train[7][::-1]
    records = Records(*([text.encode() for text in side] for side in zip(*train, strict=True)))
    model = learn([records], ('en', 'de'), **SETTINGS)
    assert inspect(records, model).rows['swapped_pair'] == {7: 0}
    in_place = {train[7][0]: ('en', 1.0), train[7][1]: ('de', 1.0)}
    monkeypatch.setattr(language, 'identify', lambda line: in_place.get(line, ('?', 0.0)))
    assert 'swapped_pair' not in inspect(records, model).rows
