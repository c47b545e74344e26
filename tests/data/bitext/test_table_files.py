"""Pairs in one file: columns with tabs between them, or JSON; what a line lacks is told with file and line."""

import gzip
import json
import re

import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.config import DataConfig
from flax_transformer.data.bitext.sources import open_corpus, read_corpus
from flax_transformer.data.lines import CHUNK


@pytest.fixture
def read(tmp_path):
    """A function that writes a file and reads it as a corpus."""

    def read(name, content, columns='', languages=('en', 'de')):
        content = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith('.gz') else content)
        config = DataConfig(root=str(tmp_path), source_language=languages[0], target_language=languages[1])
        pairs = read_corpus(f'{name}{columns}', config)
        return list(zip(pairs.sources, pairs.targets, strict=True))

    return read


@pytest.mark.parametrize('name', ['a.tsv', 'a.tsv.gz', 'a.b.tsv'])
def test_the_first_two_columns_are_source_and_target(read, name):
    assert read(name, 'one\teins\nsüß\tsweet\t0.9\n') == [('one', 'eins'), ('süß', 'sweet')]


@pytest.mark.parametrize(
    ('columns', 'pairs'),
    [
        ('#12,11', [('l', 'k')]),
        ('#4,4', [('d', 'd')]),
    ],
)
def test_columns_may_be_named(read, columns, pairs):
    assert read('a.tsv', '\t'.join('abcdefghijkl') + '\n', columns) == pairs
    assert read('a.tsv.gz', '\t'.join('abcdefghijkl') + '\n', columns) == pairs


@pytest.mark.parametrize('columns', ['1,2,3', '0,1', 'a,b', ''])
def test_other_columns_are_told_the_form(read, columns):
    with pytest.raises(UserError, match=re.escape(f'got the columns {columns!r}')):
        read('a.tsv', 'a\tb\n', f'#{columns}')


@pytest.mark.parametrize(
    ('line', 'pair'),
    [
        ('\t', ('', '')),
        ('a\t', ('a', '')),
        ('\tb', ('', 'b')),
        (' a \t b ', (' a ', ' b ')),
        ('"a\t"b""', ('"a', '"b""')),
        ('a\tb\r', ('a', 'b')),
        ('a\rb\tc\u2028d', ('a\rb', 'c\u2028d')),
    ],
)
def test_cells_are_taken_as_they_are(read, line, pair):
    assert read('a.tsv', f'x\ty\n{line}\nz\tz') == [('x', 'y'), pair, ('z', 'z')]


@pytest.mark.parametrize('number', [1, CHUNK, CHUNK + 1])
@pytest.mark.parametrize(
    ('columns', 'side', 'line'), [('', 'target', 'alone'), ('', 'target', ''), ('#2,1', 'source', 'alone')]
)
def test_a_missing_column_is_told_with_file_and_line(read, tmp_path, number, columns, side, line):
    lines = ['a\tb'] * (CHUNK + 3)
    lines[number - 1] = line
    expected = f'{tmp_path / "a.tsv"}, line {number}: there is no {side}'
    with pytest.raises(UserError, match=re.escape(expected)):
        read('a.tsv', '\n'.join(lines) + '\n', columns)


@pytest.mark.parametrize(
    'row',
    [
        {'de': 'eins', 'id': 3, 'en': 'one', 'score': None},
        {'id': '0', 'translation': {'de': 'eins', 'en': 'one', 'fr': 'un'}},
        {'source': 'one', 'target': 'eins'},
        {'translation': 'a translation', 'source': 'one', 'target': 'eins'},
        {'en': 'one', 'de': 'eins', 'source': 'tatoeba', 'target': 'x'},
    ],
    ids=lambda row: ' '.join(row),
)
def test_the_shapes_of_an_object(read, row):
    assert read('a.jsonl', json.dumps(row)) == [('one', 'eins')]
    assert read('a.jsonl.gz', f'{json.dumps(row)}\n' * 2) == [('one', 'eins')] * 2


def test_texts_of_an_object_are_one_line_each_and_otherwise_as_they_are(read):
    row = {'en': 'a\nb\n\nc', 'de': ' "\t\\ \u2028 \r ä 😀 \x00 '}
    for ascii_only in (True, False):
        line = json.dumps(row, ensure_ascii=ascii_only)
        assert read('a.jsonl', line) == [('a b  c', row['de'])]


@pytest.mark.parametrize('name', ['a.tsv', 'a.jsonl'])
def test_invalid_utf_8_is_told_with_file_line_and_byte(read, tmp_path, name):
    good, bad = {'a.tsv': (b'a\tb', b'a\tgr\xfcn'), 'a.jsonl': (b'{"en": "", "de": ""}', b'{"en": "gr\xfcn"}')}[name]
    with pytest.raises(UserError, match=re.escape(f'{tmp_path / name}, line 2: byte 0xfc is not valid UTF-8')):
        read(name, b'\n'.join([good, bad, good]))


def test_half_a_character_in_json_is_no_utf_8(read, tmp_path):
    with pytest.raises(UserError, match=re.escape(f'{tmp_path / "a.jsonl"}, line 2: byte 0xed is not valid UTF-8')):
        read('a.jsonl', '{"en": "a", "de": "b"}\n{"en": "a \\ud83d b", "de": "c"}\n')


@pytest.mark.parametrize(
    ('line', 'side'),
    [
        ('{"en": "one", "de": "eins"', 'source'),
        ('["one", "eins"]', 'source'),
        ('[' * 100_000, 'source'),
        ('{"en": "one", "fr": "un"}', 'target'),
        ('{"en": 1, "de": "eins"}', 'source'),
        ('{"translation": {"en": "one"}, "de": "eins"}', 'target'),
    ],
    ids=lambda text: text[:40],
)
def test_a_line_that_holds_no_pair_is_told_with_file_and_line(read, tmp_path, line, side):
    expected = f'{tmp_path / "a.jsonl"}, line 3: there is no {side}'
    with pytest.raises(UserError, match=re.escape(expected)):
        read('a.jsonl', f'{{"en": "a", "de": "b"}}\n{{"en": "a", "de": "b"}}\n{line}\n')


@pytest.mark.parametrize('name', ['a.tsv', 'a.jsonl'])
def test_damaged_lines_are_records_all_the_same(read, tmp_path, name):
    """For the check of a corpus, which counts them."""
    lines = {'a.tsv': 'a\tb\nalone\nc\td\n', 'a.jsonl': '{"en": "a", "de": "b"}\n{"en": "alone"}\n["c", "d"]\n'}[name]
    (tmp_path / name).write_text(lines)
    (records,) = open_corpus(name, DataConfig(root=str(tmp_path))).records()
    assert list(records.sources)[:2] == [b'a', b'alone']
    assert list(records.targets)[:2] == [b'b', None]
    assert (records.sources[2], records.targets[2]) == ((b'c', b'd') if name == 'a.tsv' else (None, None))
