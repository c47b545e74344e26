"""Text as ids: counted and written, whatever the text."""

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.embeddings.config import WordsConfig
from flax_transformer.tasks.embeddings.corpus import END_OF_LINE, Text, Vocabulary, encode, load_corpus, prepare_corpus
from flax_transformer.tasks.embeddings.glove import PAIR, count_pairs

TEXT = 'the cat sat\nthe mat\n\nrare\nThe cat the\n'
TWICE = WordsConfig(min_count=2)


def prepared(folder: Path, text: str | bytes = TEXT, config: WordsConfig = TWICE, size: int = 10):
    file = folder / 'text.txt'
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return prepare_corpus(Text([file]), config, folder, vocab_size=size)


def test_words_are_numbered_by_count_and_others_left_out(tmp_path: Path) -> None:
    corpus, vocabulary = prepared(tmp_path)
    assert (vocabulary.words, vocabulary.counts.tolist()) == (('the', 'cat'), [3, 2])
    assert corpus.ids.tolist() == [0, 1, -1, 0, -1, 1, 0, -1]
    assert (corpus.num_lines, corpus.num_words, corpus.num_known) == (3, 9, 5)
    np.testing.assert_array_equal(encode(Text([tmp_path / 'text.txt']), vocabulary, TWICE), corpus.ids)


def test_the_table_keeps_the_most_frequent_words(tmp_path: Path) -> None:
    _, vocabulary = prepared(tmp_path, 'b a b a c c c d', size=3)
    assert vocabulary.words == ('c', 'a', 'b')


def test_a_pattern_and_lower_case_say_what_is_a_word(tmp_path: Path) -> None:
    _, vocabulary = prepared(tmp_path, 'The, the! x-the', WordsConfig('[a-z]+', lower_case=True, min_count=1))
    assert vocabulary.words == ('the', 'x')


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('', 'no words'),
        ('a a a\n', '1 different words, 1 of them at least'),
        (b'fine\nb\xe9b\xe9\n', 'line 2: byte 0xe9 is not valid UTF-8'),
    ],
)
def test_bad_text_is_named(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        prepared(tmp_path, text)
    assert not list(tmp_path.glob('*.partial'))


def test_a_changed_text_or_damaged_ids_are_noticed(tmp_path: Path) -> None:
    corpus, _ = prepared(tmp_path)
    file = tmp_path / 'text.txt'
    assert load_corpus(tmp_path, [file], 9) == corpus
    file.write_text(TEXT.replace('cat', 'dog'))
    assert load_corpus(tmp_path, [file], 9) is None
    file.write_text(TEXT)
    assert load_corpus(tmp_path, [file], 9) == corpus
    corpus.file.write_bytes(corpus.file.read_bytes()[:-4])
    assert load_corpus(tmp_path, [file], 9) is None
    prepared(tmp_path)
    assert load_corpus(tmp_path, [file], 1) is None, 'an id beyond the vocabulary'
    corpus.file.write_bytes(bytes(corpus.file.stat().st_size))
    assert load_corpus(tmp_path, [file], 9) is None


def test_a_damaged_vocabulary_is_named(tmp_path: Path) -> None:
    file = tmp_path / 'vocabulary.txt'
    Vocabulary(['a', 'b'], [2, 1]).save(file)
    assert Vocabulary.load(file).words == ('a', 'b')
    for text in ('a 2\n', 'a 2\na 1\n', 'a\nb 1\n', 'a 2\nb x\n', f'a {2**63}\nb 1\n', 'a 2\nb -5\n', 'a 22\nb 1'):
        file.write_text(text)
        with pytest.raises(UserError, match='damaged'):
            Vocabulary.load(file)


@pytest.mark.parametrize('most', [1 << 20, 40])
def test_pairs_are_counted_by_their_distance_within_lines(tmp_path: Path, most: int) -> None:
    """The same from one run and from many, merged in many ranges."""
    generator = np.random.default_rng(0)
    ids = np.where(generator.random(400) < 0.1, END_OF_LINE, generator.integers(0, 9, 400)).astype(np.int32)
    expected: Counter[tuple[int, int]] = Counter()
    for i, j in itertools.combinations(range(len(ids)), 2):
        if j - i <= 4 and (ids[i : j + 1] != END_OF_LINE).all():
            expected[tuple(sorted(ids[[i, j]].tolist()))] += (1 + (ids[i] == ids[j])) / (j - i)  # seen from both sides
    out = tmp_path / 'pairs'
    assert count_pairs(ids, 4, out, most=most) == len(expected)
    found = np.fromfile(out, PAIR)
    assert list(zip(found['first'].tolist(), found['second'].tolist(), strict=True)) == sorted(expected)
    # Kept as float32.
    np.testing.assert_allclose(found['count'], [expected[pair] for pair in sorted(expected)], rtol=1e-6)
    assert [file.name for file in tmp_path.iterdir()] == ['pairs']


def test_frequent_words_leave_before_pairs_are_counted(tmp_path: Path) -> None:
    """Words around one that is left out become neighbors; lines stay apart; the seed alone decides."""
    lines = np.tile(np.array([1, 0, 2, END_OF_LINE], np.int32), 1000)
    never = np.array([0.0, 1.0, 1.0], np.float32)
    count_pairs(lines, 1, tmp_path / 'never', keep=never)
    assert np.fromfile(tmp_path / 'never', PAIR).tolist() == [(1, 2, 1000.0)]
    for name, seed in (('one', 0), ('same', 0), ('other', 1)):
        count_pairs(lines, 1, tmp_path / name, keep=np.array([0.5, 1.0, 1.0], np.float32), seed=seed)
    found = {(first, second): count for first, second, count in np.fromfile(tmp_path / 'one', PAIR).tolist()}
    assert found[0, 1] == found[0, 2] == 1000 - found[1, 2]
    assert 400 < found[1, 2] < 600
    assert (tmp_path / 'one').read_bytes() == (tmp_path / 'same').read_bytes()
    assert (tmp_path / 'one').read_bytes() != (tmp_path / 'other').read_bytes()
    assert count_pairs(lines, 1, tmp_path / 'none', keep=np.zeros(3, np.float32)) == 0
