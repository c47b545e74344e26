"""Required phrases and glossaries, as users give them; the search itself: tests/decoding/test_required.py."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from flax_transformer import Translator
from flax_transformer.cli import lines, main
from flax_transformer.common.errors import UserError
from flax_transformer.decoding.problem import NONE
from flax_transformer.engine.config import ParallelConfig
from flax_transformer.tasks.translation.glossary import Glossary
from flax_transformer.tasks.translation.inference.lines import split_into_parts
from flax_transformer.tasks.translation.inference.terms import Demand, Demands, demands_of_line, with_marks

LINES = ['a b c', 'd e', '', 'f g h a']


@pytest.mark.slow
def test_a_translation_contains_what_its_line_requires_and_others_are_as_without(copy_run: Path) -> None:
    translator = Translator.from_run(copy_run, beam_width=4)
    plain = translator(LINES)
    required = [['h g', ('e', 'd')], None, ['a'], ['a', 'a']]
    found = translator(LINES, required=required)
    assert found[1:3] == plain[1:3]
    first, last = found[0].text.split(), found[3].text.split()
    assert 'h g' in found[0].text
    assert {'d', 'e'} & {*first}
    assert last.count('a') == 2
    assert not any(each.missing for each in found)
    several = Translator.from_run(copy_run, beam_width=4, parallel=ParallelConfig(num_devices=2))
    assert [each.tokens for each in several(LINES, required=required)] == [each.tokens for each in found]
    with_prefix = translator('a b c', prefixes='h', required=['g'])
    assert with_prefix.text.startswith('h')
    assert 'g' in with_prefix.text.split()
    assert translator('a b c', required=[]) == plain[0]


@pytest.mark.slow
def test_a_term_stands_in_place_of_what_the_model_says_for_its_words(copy_run: Path) -> None:
    """The model copies letters, so a term's place is known: in the middle, twice at both ends, beside other lines."""
    translator = Translator.from_run(copy_run, beam_width=4)
    glossary = Glossary({'b': ['g']})
    found = translator(['a b c', 'd e', 'b a d b'], glossary=glossary)
    assert [each.text for each in found] == ['a g c', 'd e', 'g a d g']
    assert not any(each.missing for each in found)
    assert translator('a b c', prefixes='a b', glossary=glossary).text.startswith('a b')
    own = translator('a b c', required=[Demand(('g',), (2, 3)), 'h'], glossary=glossary)
    assert (own.text.split().count('g'), 'h' in own.text) == (1, True)
    assert translator('a b', required=[Demand(('h ' * 60,), (2, 3))]).missing == ('h ' * 60,)


def test_demands_are_in_the_order_of_their_places() -> None:
    """Marks are put into the source from left to right."""
    demands = demands_of_line('a b', 0, [Demand(('y',), (2, 3)), 'z'], Glossary({'a': ['x']}))
    assert [demand.alternatives for demand in demands] == [('z',), ('x',), ('y',)]


def test_a_term_with_several_forms_is_moved_but_not_marked() -> None:
    """A capital, as at the beginning of a sentence, makes no other form."""
    wanted = [[Demand(('ein',), (0, 3)), Demand(('rot', 'rote'), (4, 7)), Demand(('auto', 'Auto'), (8, 11))]]
    phrases = np.array([[[[10], [NONE]], [[11], [12]], [[13], [14]]]])
    places = np.array([[[0, 1], [1, 2], [2, 3]]])
    tokenizer = SimpleNamespace(marks=(30, 31, 32))
    lines = with_marks([[5, 6, 7, 1]], Demands(wanted, phrases, places), tokenizer, most=99)
    assert lines == [[30, 5, 31, 10, 32, 6, 30, 7, 31, 13, 32, 1]]
    assert places.tolist() == [[[0, 5], [5, 6], [6, 11]]]


def test_no_sentence_ends_within_a_term() -> None:
    line = split_into_parts('I use e.g. house. It is old.', len, 99, 'en', [(6, 16)])
    assert line.parts == ['I use e.g. house.', 'It is old.']
    whole = split_into_parts('One. Two. Three.', len, 99, 'en', [(3, 7)])
    assert whole.parts == ['One. Two.', 'Three.']


@pytest.mark.slow
def test_alternatives_of_one_phrase_do_not_overlap_and_forced_ends_are_cut(copy_run: Path) -> None:
    translator = Translator.from_run(copy_run, beam_width=4, force_eos=True, max_tokens=6)
    (twice,) = translator(['a b c'], required=[[('b', 'b c'), ('b', 'b c')]])
    assert twice.text.split().count('b') == 2
    (late,) = translator(['a b'], required=[['c d e f g h']])
    assert (late.truncated, late.missing) == (True, ('c d e f g h',))


@pytest.mark.slow
def test_a_phrase_that_cannot_be_is_missing(copy_run: Path) -> None:
    translator = Translator.from_run(copy_run, beam_width=2, max_tokens=4)
    found = translator(['a b', 'c'], required=[[['a ' * 9, 'b ' * 9]], ['c']])
    assert [each.missing for each in found] == [('a ' * 9,), ()]
    for width in ({'beam_width': 1}, {'search': 'sample'}):
        with pytest.raises(UserError, match='expected a beam of at least 2'):
            Translator.from_run(copy_run, **width)(['a'], required=[['b']])
    for wrong in ('b', [3], [['b', '']], [[]]):
        with pytest.raises(UserError, match=r'required\[0\]=.*: expected a list of phrases'):
            translator(['a'], required=[wrong])


def test_the_command_takes_phrases_from_records_and_terms_from_a_file(
    copy_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / 'terms.tsv').write_text('b c\th|g\n', encoding='utf-8')
    records = [{'text': 'a b c'}, {'text': 'd e', 'required': ['a', ['b', 'c']]}]
    (tmp_path / 'in').write_text(''.join(json.dumps(record) + '\n' for record in records), encoding='utf-8')
    files = ['--input', str(tmp_path / 'in'), '--input-format', 'jsonl', '--format', 'jsonl']
    terms = ['--glossary', str(tmp_path / 'terms.tsv')]
    assert main(['-q', 'translate', str(copy_run), *files, *terms]) == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert {'h', 'g'} & {*first['translation'].split()}
    assert 'a' in second['translation'].split()
    assert (first['missing'], second['missing'], second['required']) == ([], [], ['a', ['b', 'c']])
    (tmp_path / 'in').write_text('{"text": "a", "required": "b"}\n', encoding='utf-8')
    assert main(['-q', 'translate', str(copy_run), *files]) == 2
    assert 'input line 1 is no record: "required" is no list of phrases' in capsys.readouterr().err


@pytest.mark.slow
def test_the_next_chunk_does_not_require_what_the_last_one_did(
    copy_run: Path, call_command: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, 'CHUNK', 1)
    given = '{"text": "a b", "required": ["g"]}\n{"text": "d e"}\n'
    _, output, _ = call_command('-q', 'translate', copy_run, '--input-format', 'jsonl', text=given)
    assert ['g' in line for line in output.splitlines()] == [True, False]


def test_terms_match_whole_words_the_longest_first() -> None:
    glossary = Glossary({'dog': ['Hund', 'Hunde'], 'hot dog': ['Wurst'], 'Apple': ['Apple'], '机器': ['machine']})
    found = lambda text: [(match.source, match.targets) for match in glossary.find(text)]
    assert found('A hot dog, a Dog and hotdogs.') == [
        ('hot dog', ('Wurst',)),
        ('Dog', ('Hund', 'Hunde')),
    ]
    assert found('An apple of Apple') == [('Apple', ('Apple',))]
    assert found('我的机器学习') == [('机器', ('machine',))]
    assert Glossary({'the dog': ['der Hund']}).find('The dog')[0].targets == ('der Hund', 'Der Hund')


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('a\tb\nc\n', 'line 2: got 1 column; expected a term, a tab and its translation'),
        ('a\t\n', 'line 1: got an empty column'),
        ('a\tb\n\na\tc\n', "line 3: 'a' has another translation in line 1; .*: b|c allows each of these"),
        ('\n', 'has no terms'),
    ],
)
def test_a_bad_glossary_is_refused_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / 'terms.tsv').write_text(text, encoding='utf-8')
    with pytest.raises(UserError, match=message):
        Glossary.from_file(tmp_path / 'terms.tsv')
