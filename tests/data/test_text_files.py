"""Aligned text files: whatever is wrong with them is said with file, line and counts."""

import gzip
import re

import pytest

from flax_transformer.config import DataConfig
from flax_transformer.data.sources import data_root, read_corpus
from flax_transformer.data.text_files import read_lines, read_text_files
from flax_transformer.errors import UserError


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_line_n_of_one_file_translates_line_n_of_the_other(tmp_path):
    pairs = read_text_files(write(tmp_path / 'a', 'one\ntwo\n'), write(tmp_path / 'b', 'eins\nzwei\n'))
    assert pairs.sources == ['one', 'two']
    assert pairs.targets == ['eins', 'zwei']
    assert len(pairs) == 2


def test_unequal_counts_are_told_with_both(tmp_path):
    a, b = write(tmp_path / 'a', 'one\ntwo\nthree\n'), write(tmp_path / 'b', 'eins\n')
    with pytest.raises(UserError, match='expected equal counts') as caught:
        read_text_files(a, b)
    assert f'{a} has 3 lines, {b} has 1' in str(caught.value)


@pytest.mark.parametrize(
    ('content', 'lines'),
    [
        ('a\nb\n', ['a', 'b']),
        ('a\nb', ['a', 'b']),
        ('a\n\n\nb\n', ['a', '', '', 'b']),
        ('\n', ['']),
        ('', []),
        ('a\r\nb\r\n', ['a', 'b']),
        ('a\rb\r\r\nc\r', ['a\rb\r', 'c']),
        ('a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\n', ['a\u2028b\u2029c\x85d\x0be\x0cf\x1cg']),
        ('\ufeffa\n\ufeffb\n', ['a', '\ufeffb']),
        ('\ufeff', []),
        (' a \t\x00\n', [' a \t\x00']),
    ],
)
def test_a_line_ends_at_the_line_feed_alone(tmp_path, content, lines):
    assert read_lines(write(tmp_path / 'plain.txt', content)) == lines
    assert read_lines(write(tmp_path / 'packed.txt.gz', gzip.compress(content.encode()))) == lines


@pytest.mark.parametrize(
    ('content', 'line', 'byte'),
    [
        (b'one\ntwo \xe4\n', 2, 'e4'),
        (b'\xff\xfea\x00', 1, 'ff'),
        (b'a\r\n\n\xc3', 3, 'c3'),
        (b'a\n\xed\xb0\x80', 2, 'ed'),
    ],
    ids=['latin-1', 'utf-16', 'half a character', 'surrogate'],
)
@pytest.mark.parametrize('name', ['text', 'text.gz'])
def test_invalid_utf_8_is_told_with_file_line_byte_and_remedy(tmp_path, content, line, byte, name):
    file = write(tmp_path / name, gzip.compress(content) if name.endswith('gz') else content)
    with pytest.raises(UserError, match='iconv') as caught:
        read_lines(file)
    assert f'{file}, line {line}: byte 0x{byte} is not valid UTF-8' in str(caught.value)


@pytest.mark.parametrize(('content', 'line'), [(b'abcdef\xe4\n', 1), (b'abc\ndef\n\xe4\n', 3)])
def test_invalid_utf_8_behind_a_byte_order_mark_is_told_with_the_right_line_and_byte(tmp_path, content, line):
    with pytest.raises(UserError, match=f'line {line}: byte 0xe4 is not'):
        read_lines(write(tmp_path / 'text', b'\xef\xbb\xbf' + content))


def test_a_missing_file_is_named_with_where_paths_start(tmp_path):
    with pytest.raises(UserError, match=r'a\.txt does not exist'):
        read_lines(tmp_path / 'a.txt')


def test_a_missing_folder_is_named_too(tmp_path):
    with pytest.raises(UserError, match=re.escape(f'(nor does the folder {tmp_path / "none"})')):
        read_lines(tmp_path / 'none' / 'a.txt')


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(UserError, match='is a folder, not a file'):
        read_lines(tmp_path)


@pytest.mark.parametrize('content', ['', '\ufeff'])
def test_empty_files_are_named(tmp_path, content):
    a, b = write(tmp_path / 'a', content), write(tmp_path / 'b', '')
    with pytest.raises(UserError, match='empty; expected at least one sentence pair') as caught:
        read_text_files(a, b)
    assert str(a) in str(caught.value)
    assert str(b) in str(caught.value)


WHOLE = gzip.compress(b'one line\n' * 200)


@pytest.mark.parametrize(
    'content',
    [b'not gzip\n', WHOLE[: len(WHOLE) // 2], WHOLE[:10] + b'\xff' * 8 + WHOLE[18:], WHOLE[:-8] + b'\0' * 8],
    ids=['not gzip', 'cut', 'overwritten', 'checksum'],
)
def test_a_broken_archive_is_named(tmp_path, content):
    file = write(tmp_path / 'a.gz', content)
    with pytest.raises(UserError, match=re.escape(f'{file} could not be read')):
        read_lines(file)


def test_a_corpus_is_found_by_its_name(tmp_path, monkeypatch):
    (tmp_path / 'set').mkdir()
    write(tmp_path / 'set' / 'train.en.gz', gzip.compress(b'one\n'))
    write(tmp_path / 'set' / 'train.de.gz', gzip.compress('süß\n'.encode()))
    name, two_paths = 'set/train.{lang}.gz', 'set/train.en.gz, set/train.de.gz'
    for config in (DataConfig(root=str(tmp_path)), DataConfig()):
        monkeypatch.setenv('FLAX_TRANSFORMER_DATA', '/nowhere' if config.root else str(tmp_path))
        for corpus in (name, two_paths):
            pairs = read_corpus(corpus, config)
            assert (pairs.sources, pairs.targets) == (['one'], ['süß'])
    turned = read_corpus(name, DataConfig(source_language='de', target_language='en'))
    assert (turned.sources, turned.targets) == (['süß'], ['one'])


def test_relative_paths_start_at_the_root_else_the_variable_else_data(monkeypatch):
    monkeypatch.setenv('FLAX_TRANSFORMER_DATA', '/corpora')
    assert str(data_root(DataConfig(root='/mine'))) == '/mine'
    assert str(data_root(DataConfig())) == '/corpora'
    monkeypatch.delenv('FLAX_TRANSFORMER_DATA')
    assert str(data_root(DataConfig())) == 'data'


@pytest.mark.parametrize('name', ['train.txt', 'train.csv.gz', ''])
def test_a_name_of_no_known_form_lists_the_forms(name):
    with pytest.raises(UserError, match=r'expected a path with \{lang\} in it, two paths .* tfds:.* number_words:'):
        read_corpus(name, DataConfig())
