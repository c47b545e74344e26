"""Aligned text files: whatever is wrong with them is said with file, line and counts."""

import bz2
import gzip
import lzma
import re

import pytest
import zstandard

from flax_transformer.common.errors import UserError
from flax_transformer.config import DataConfig
from flax_transformer.data.bitext.sources import read_corpus
from flax_transformer.data.bitext.text_files import AlignedFiles
from flax_transformer.data.lines import CHUNK, read_lines
from flax_transformer.data.named_files import data_root

ZST = zstandard.ZstdCompressor(write_checksum=True)  # the command `zstd` does so
PACK = {'.gz': gzip.compress, '.xz': lzma.compress, '.bz2': bz2.compress, '.zst': ZST.compress}


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


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
    for suffix, pack in PACK.items():
        assert read_lines(write(tmp_path / f'packed.txt{suffix}', pack(content.encode()))) == lines


@pytest.mark.parametrize(
    ('content', 'line', 'byte'),
    [
        (b'one\ntwo \xe4\n', 2, 'e4'),
        (b'a\r\n\n\xc3', 3, 'c3'),
        (b'a\n\xed\xb0\x80', 2, 'ed'),
    ],
    ids=['latin-1', 'half a character', 'surrogate'],
)
@pytest.mark.parametrize('name', ['text', 'text.gz'])
def test_invalid_utf_8_is_told_with_file_line_byte_and_remedy(tmp_path, content, line, byte, name):
    file = write(tmp_path / name, gzip.compress(content) if name.endswith('gz') else content)
    with pytest.raises(UserError, match='iconv') as caught:
        read_lines(file)
    assert f'{file}, line {line}: byte 0x{byte} is not valid UTF-8' in str(caught.value)


# Long and varied enough that an archive has several blocks.
TEXT = ''.join(f'{number} {number * number % 9973:x}\n' for number in range(3 * CHUNK)).encode()


def middle(archive, replacement):
    half = len(archive) // 2
    return archive[:half] + replacement + archive[half + len(replacement) :]


@pytest.mark.parametrize('suffix', PACK)
@pytest.mark.parametrize(
    'damage',
    [
        lambda archive: b'not an archive\n',
        lambda archive: archive[: len(archive) // 2],
        lambda archive: archive[:-1],
        lambda archive: middle(archive, b'\xff\x00' * 20),
    ],
    ids=['not an archive', 'cut', 'cut by a byte', 'overwritten'],
)
def test_a_broken_archive_is_named(tmp_path, suffix, damage):
    file = write(tmp_path / f'a{suffix}', damage(PACK[suffix](TEXT)))
    with pytest.raises(UserError, match=re.escape(f'{file} could not be read: ')) as caught:
        read_lines(file)
    assert str(caught.value).removeprefix(f'{file} could not be read: ')


@pytest.mark.parametrize('suffix', PACK)
def test_archives_laid_end_to_end_are_read_to_the_last(tmp_path, suffix):
    pack = PACK[suffix]
    file = write(tmp_path / f'a{suffix}', pack(b'one\ntw') + pack(b'') + pack(b'o\n') + pack(TEXT))
    assert read_lines(file) == ['one', 'two', *TEXT.decode().split('\n')[:-1]]


def numbered(count, word):
    return ''.join(f'{word} {number}\n' for number in range(1, count + 1))


@pytest.mark.parametrize('more', [1, CHUNK])
@pytest.mark.parametrize('count', [0, CHUNK - 1, CHUNK])
@pytest.mark.parametrize('longer', [0, 1], ids=['source', 'target'])
def test_unequal_counts_are_found_at_and_across_the_borders_of_chunks(tmp_path, count, more, longer):
    counts = (count + more, count) if longer == 0 else (count, count + more)
    a, b = (write(tmp_path / word, numbered(n, word)) for word, n in zip('ab', counts, strict=True))
    corpus = AlignedFiles('corpus', [(a, b)])
    with pytest.raises(UserError, match=re.escape(f'{a} has {counts[0]} lines, {b} has {counts[1]}')):
        list(corpus.pairs())
    sides = [[line for records in corpus.records() for line in records[side]] for side in (0, 1)]
    assert len(sides[0]) == len(sides[1]) == count + more
    assert sides[longer].count(None) == 0
    assert [i for i, line in enumerate(sides[1 - longer]) if line is None] == list(range(count, count + more))


def test_relative_paths_start_at_the_root_else_the_variable_else_data(monkeypatch):
    monkeypatch.setenv('FLAX_TRANSFORMER_DATA', '/corpora')
    assert str(data_root('/mine')) == '/mine'
    assert str(data_root(None)) == '/corpora'
    monkeypatch.delenv('FLAX_TRANSFORMER_DATA')
    assert str(data_root(None)) == 'data'


@pytest.mark.parametrize('name', ['train.txt', 'train.parquet', ''])
def test_a_name_of_no_known_form_lists_the_forms(name):
    with pytest.raises(UserError, match=r'\{lang\}.* tfds:.* number_words:'):
        read_corpus(name, DataConfig())
