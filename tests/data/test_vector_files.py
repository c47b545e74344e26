"""Files of word vectors: gensim's to the byte and the bit, and damage is one message; rows that start from them."""

import re
from pathlib import Path

import numpy as np
import pytest
from conftest import TESTS

from flax_transformer.common.errors import UserError
from flax_transformer.data.vector_files import pretrained_rows, read_vectors, with_pretrained, write_vectors

GENSIM = TESTS / 'fixtures' / 'word_vectors'
FORMS = {'words.bin': 'binary', 'words.txt': 'text', 'glove.txt': 'glove'}


@pytest.mark.parametrize('name', FORMS)
def test_what_gensim_wrote_is_read_and_written_again_to_the_bit(name: str, tmp_path: Path) -> None:
    binary, found = read_vectors(GENSIM / 'words.bin'), read_vectors(GENSIM / name)
    assert found.words == binary.words
    assert found.matrix.tobytes() == binary.matrix.tobytes()
    assert found.matrix.dtype == np.float32
    assert found.words[7:9] == ['naïve', '東京']
    assert found.matrix[0, 0] == np.float32(1e-40)  # not flushed to zero
    write_vectors(tmp_path / name, *found, FORMS[name])
    assert (tmp_path / name).read_bytes() == (GENSIM / name).read_bytes()


@pytest.mark.parametrize('name', ['words.bin.xz', 'words.txt.gz', 'words.vec.zst'])
def test_compressed_files_are_read_as_they_were_written(name: str, tmp_path: Path) -> None:
    known = read_vectors(GENSIM / 'words.bin')
    write_vectors(tmp_path / name, *known)
    found = read_vectors(tmp_path / name)
    assert found.words == known.words
    assert found.matrix.tobytes() == known.matrix.tobytes()


def test_the_line_breaks_of_the_program_in_c_are_no_part_of_words(tmp_path: Path) -> None:
    row = np.array([1, 2], '<f4').tobytes()
    (tmp_path / 'c.bin').write_bytes(b'2 2\nking ' + row + b'\nqueen ' + row + b'\n')
    assert read_vectors(tmp_path / 'c.bin').words == ['king', 'queen']


def test_a_large_binary_file_is_read_in_pieces(tmp_path: Path) -> None:
    words = [f'w{number}' for number in range(3000)]
    matrix = np.random.default_rng(0).standard_normal((3000, 150)).astype(np.float32)
    write_vectors(tmp_path / 'large.bin', words, matrix)
    found = read_vectors(tmp_path / 'large.bin')
    assert found.words == words
    assert np.array_equal(found.matrix, matrix)
    some = read_vectors(tmp_path / 'large.bin', only={'w7', 'w2999', 'none'})
    assert some.words == ['w7', 'w2999']
    assert np.array_equal(some.matrix, matrix[[7, 2999]])


ROW = np.array([1, 2], '<f4').tobytes()
TEXTS = {
    'nothing': (b'', 'has no vectors'),
    'too few': (b'3 2\na 1 2\nb 3 4\n', '2 of the 3 words'),
    'too many': (b'1 2\na 1 2\nb 3 4\n', 'goes on after the 1 words'),
    'other width': (b'2 2\na 1 2\nb 3 4 5\n', "line 3: got 3 numbers after 'b'"),
    'no width': (b'2 0\na\nb\n', 'begins with .2 0., expected'),
    'glove, a word alone': (b'a\n', "line 1: got 0 numbers after 'a'"),
    'twice': (b'a 1 2\nb 3 4\na 5 6\n', "line 3: 'a' is also line 1"),
    'nan': (b'1 2\na 1 nan\n', 'line 2: .*nan'),
    'letters': (b'a 1 2\nb x 4\n', "line 2: .*'x'"),
    'a control character in a word': (b'a 1 2\nb\0 3 4\n', r"line 2: 'b\\x00' is no word"),
    'pickle': (b'\x80\x04\x95', 'is a pickle .*save_word2vec_format'),
    'tabs': (b'a\t1\t2\n', 'separated by spaces'),
    'not UTF-8': (b'a 1 2\nb\xff 3 4\n', 'line 2: byte 0xff'),
}
BINARIES = {
    'no header': (b'king ' + ROW, r'begins with .king'),
    'a header alone': (b'0 2\n', 'has no vectors'),
    'too few': (b'2 2\na ' + ROW, 'ends after 1 of the 2 words'),
    'cut': (b'2 2\na ' + ROW + b'b ' + ROW[:-1], "ends in the vector of 'b', word 2 of 2"),
    'too many': (b'1 2\na ' + ROW + b'b ' + ROW, 'goes on after the 1 words'),
    'too narrow a header': (b'2 1\nking ' + ROW + b'queen ' + ROW, 'width 1'),
    'huge': (b'999999999999 1000\na ' + ROW, "ends in the vector of 'a'"),
    'no space': (b'2 2\na ' + ROW + b'b' * 5000, 'no space in 4,096 bytes'),
    'not UTF-8': (b'1 2\n\xff ' + ROW, 'is no word in UTF-8'),
}


@pytest.mark.parametrize(
    ('name', 'content', 'message'),
    [
        *((f'{case}.txt', *each) for case, each in TEXTS.items()),
        *((f'{case}.bin', *each) for case, each in BINARIES.items()),
    ],
    ids=str,
)
def test_a_bad_file_is_refused_in_one_sentence(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message) as raised:
        read_vectors(tmp_path / name)
    assert name in str(raised.value)
    assert '\n' not in str(raised.value)


@pytest.mark.parametrize(
    ('name', 'content'),
    [
        ('a.bin', b'3 2\nh\xc3 ' + ROW + b'a ' + ROW + b'h\xc3 ' + ROW),
        ('a.txt', b'3 2\nh\xc3 1 2\na 1 2\nh\xc3 3 4\n'),
    ],
)
def test_words_cut_within_a_character_are_read_if_asked(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match='--invalid replace'):
        read_vectors(tmp_path / name)
    assert read_vectors(tmp_path / name, invalid='replace').words == ['h\ufffd', 'a']
    (tmp_path / f'z{name}').write_bytes(content.replace(b'3 2', b'3 1'))
    with pytest.raises(UserError):  # what is no file of words stays none
        read_vectors(tmp_path / f'z{name}', invalid='replace')


def test_a_first_line_of_integers_is_a_vector_if_the_format_says_so(tmp_path: Path) -> None:
    (tmp_path / 'a.txt').write_bytes(b'2 2 2\na 1 2\n')
    assert read_vectors(tmp_path / 'a.txt', 'glove').words == ['2', 'a']


def test_a_file_that_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r'z\.bin could not be written: No such'):
        write_vectors(tmp_path / 'none' / 'z.bin', ['a'], np.ones((1, 2)))


@pytest.mark.parametrize('word', ['', 'two words', 'a\tb', 'a\n', '\ud800'])
def test_a_word_that_no_reader_would_find_again_is_not_written(word: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match='cannot be written'):
        write_vectors(tmp_path / 'a.txt', ['a', word], np.zeros((2, 3), np.float32))
    assert not list(tmp_path.iterdir())


def test_words_of_glove_840b_that_hold_spaces_are_read(tmp_path: Path) -> None:
    file = tmp_path / 'glove.txt'
    file.write_text('the 1 2\n. . . 3 4\nat a@b.com 5 6\n')
    words, matrix = read_vectors(file)
    assert words == ['the', '. . .', 'at a@b.com']
    assert matrix.tolist() == [[1, 2], [3, 4], [5, 6]]


VECTORS = {'king': [1.0, 2.0], 'Queen': [3.0, 4.0], 'u': [5.0, 6.0], '<0x0A>': [7.0, 8.0], '<pad>': [9.0, 9.0]}


@pytest.fixture
def root(tmp_path: Path) -> str:
    write_vectors(tmp_path / 'vectors.txt', list(VECTORS), np.array(list(VECTORS.values())))
    return str(tmp_path)


def test_pieces_are_words_without_their_mark_and_the_rest_is_counted_once(root: str) -> None:
    said = []
    tokens = [None, '▁king', 'king', '▁King', 'Queen', 'queen', '▁', 'u', '<0x0A>', 'x', '</s>', '<pad>']
    found = pretrained_rows('vectors.txt', root, tokens, 2, say=said.append)
    assert found.ids.tolist() == [1, 2, 3, 4, 7]
    assert found.rows.tolist() == [VECTORS[word] for word in ('king', 'king', 'king', 'Queen', 'u')]
    assert re.match(r'vectors\.txt: .* 5 tokens; 2 .*\(queen, x\)', said[0])


def test_the_rows_get_the_size_of_the_table_and_keep_their_proportions(root: str) -> None:
    found = pretrained_rows('vectors.txt', root, [None, 'king', 'x', 'Queen'], 2, say=str)
    table = np.random.default_rng(0).normal(0, 0.1, (4, 2)).astype(np.float32)
    started = with_pretrained(table, found)
    assert np.array_equal(started[[0, 2]], table[[0, 2]])
    assert np.sqrt(np.mean(started[[1, 3]] ** 2)) == pytest.approx(np.sqrt(np.mean(table**2)), rel=1e-5)
    assert started[3] / started[1] == pytest.approx(np.array([3, 2]), rel=1e-5)
    zeros = found._replace(rows=found.rows * 0)
    assert not with_pretrained(table, zeros)[[1, 3]].any()


@pytest.mark.parametrize(
    ('name', 'tokens', 'width', 'message'),
    [
        ('none.bin', ['king'], 2, r'none\.bin'),
        ('vectors.txt', ['king'], 3, 'model.d_model=3'),
        ('vectors.txt', ['x'], 3, 'has vectors of 2 values'),
        ('vectors.txt', [None, 'x'], 2, 'has none of the 2 tokens'),
        ('bad.txt', ['king'], 2, r'bad\.txt, line 1'),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    root: str, name: str, tokens: list[str | None], width: int, message: str
) -> None:
    Path(root, 'bad.txt').write_text('king\n')
    with pytest.raises(UserError, match=message):
        pretrained_rows(name, root, tokens, width, say=str)


def test_files_that_are_absent_or_broken_archives_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r'none\.bin does not exist'):
        read_vectors(tmp_path / 'none.bin')
    for name in ('a.bin.xz', 'a.txt.gz', 'a.bin.zst'):
        (tmp_path / name).write_bytes(b'2 2\na 1 2\n')
        with pytest.raises(UserError, match='could not be read'):
            read_vectors(tmp_path / name)
