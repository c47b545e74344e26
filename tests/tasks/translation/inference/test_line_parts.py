"""Long lines are cut where it hurts least, and nothing but whitespace is lost."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flax_transformer.tasks.translation.inference.lines import is_blank, split_into_parts, split_line
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer

LIMIT = 12


def words(text):
    """A token a word, and EOS."""
    return len(text.split()) + 1


def squeezed(text):
    return ''.join(text.split())


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.text('ab äß.,:;!? \t\u2028你。，', max_size=120), st.integers(3, 40))
def test_parts_fit_and_lose_nothing_but_whitespace(line, limit):
    parts = split_line(line, len, limit)
    assert all(len(part) <= limit for part in parts)
    assert squeezed(''.join(parts)) == squeezed(line)
    if len(line) > limit:
        assert not any(is_blank(part) for part in parts)


def test_a_line_that_fits_is_left_as_it_is():
    for line in ('', ' ', ' a  b. c ', 'x' * LIMIT):
        assert split_line(line, len, LIMIT) == [line]


@pytest.mark.parametrize(
    ('line', 'parts'),
    [
        ('One, two, three. Four five six. Seven.', ['One, two, three.', 'Four five six. Seven.']),
        ('Is it so? Yes it is! Good then…  Well.', ['Is it so? Yes it is!', 'Good then…  Well.']),
        ('one two, three four, five six seven', ['one two, three four,', 'five six seven']),
        ('one two three four five six seven', ['one two three four five', 'six seven']),
        ('He is here. So is Dr. Smith', ['He is here.', 'So is Dr. Smith']),
        ('你好你好你好你好你好。 再见再见再见再见再见再见。', ['你好你好你好你好你好。', '再见再见再见再见再见再见。']),
    ],
    ids=['sentence before comma', 'all ends', 'clauses', 'words', 'Dr.', 'Chinese'],
)
def test_a_line_is_cut_at_sentence_ends_then_clauses_then_words(line, parts):
    assert split_line(line, len, 24 if line.isascii() or '…' in line else 14) == parts


def test_neighbors_stay_together_as_long_as_they_fit():
    line = ' '.join(f'Sentence {n}.' for n in range(40))
    parts = split_line(line, words, 11)
    assert ' '.join(parts) == line
    assert [words(part) for part in parts] == [11] * 8


@pytest.mark.parametrize(
    'line', ['at 10:30 or 11:45 in the hall of the house', 'it costs 3,50 or 1,000,000 in all the old shops']
)
def test_rejoined_neighbors_get_no_space_that_was_not_there(line):
    """The model saw 10:30 as one word; so should it here."""
    assert ' '.join(split_line(line, len, 30)) == line


@pytest.mark.parametrize('text', ['x' * 50_000, 'Ja. ' * 5_000, 'ab ' * 5_000])
def test_very_long_lines_are_cut_in_reasonable_time(text):
    """Quadratic cutting takes minutes; the limit leaves room for a slow, shared machine."""
    tokenizer = SentencePieceTokenizer.train(['Ja, a b ab x.', 'Das ist ja so.'] * 20, vocab_size=275)
    count = lambda line: len(tokenizer.encode([line])[0])
    start = time.perf_counter()
    parts = split_line(text, count, 256)
    assert time.perf_counter() - start < 10
    assert squeezed(''.join(parts)) == squeezed(text)
    assert max(map(count, parts)) <= 256
    assert re.fullmatch(r'\S.*\S|\S', parts[0])


@pytest.mark.parametrize(
    ('line', 'parts'),
    [
        ('Er wohnt im 2. Stock. Dort ist es, z. B. am 14. März, warm.', 2),
        ('Dr. Weber kam im 19. Jahrhundert. Es kostet 30. Dann ging er.', 3),
        ('Tel.: 030 12345. Fax.: 030 1.', 2),
        ('Bitte z. Hd. Frau Weber. Es kostet inkl. Porto 30.', 2),
    ],
)
def test_no_sentence_ends_at_an_ordinal_or_an_abbreviation(line, parts):
    split = split_into_parts(line, len, 256, 'de')
    assert len(split.parts) == parts
    assert ''.join(part + gap for part, gap in zip(split.parts, split.gaps, strict=True)) == line


@pytest.mark.parametrize(
    ('row', 'parts'), [('| Name | 12 | City |', ['Name', 'City']), ('one\t3,5\ttwo', ['one', 'two']), ('a|b', ['a|b'])]
)
def test_cells_are_parts_and_those_without_letters_stay(row, parts):
    split = split_into_parts(row, len, 256, in_cells=True)
    assert split.parts == parts
    assert split.lead + ''.join(part + gap for part, gap in zip(split.parts, split.gaps, strict=True)) == row
