"""Word vectors give gensim's similarities, neighbors and analogies; mistakes are one message."""

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import TESTS

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.embeddings.vectors import WordVectors

FOLDER = TESTS / 'fixtures' / 'word_vectors'
GENSIM = json.loads((FOLDER / 'gensim.json').read_text('utf-8'))


@pytest.fixture(scope='module')
def vectors() -> WordVectors:
    return WordVectors.load(FOLDER / 'words.bin')


def test_answers_are_gensims(vectors: WordVectors) -> None:
    assert vectors.similarity('king', 'queen') == pytest.approx(GENSIM['similarity'], abs=1e-6)
    found = {
        'neighbors': vectors.neighbors('king', count=4),
        'add': vectors.analogy('man', 'woman', 'king', count=4),
        'mul': vectors.analogy('man', 'woman', 'king', count=4, method='mul'),
        'among': vectors.analogy('man', 'woman', 'king', count=2, among=7),
    }
    for name, answers in found.items():
        words, scores = zip(*GENSIM[name], strict=True)
        assert tuple(each.word for each in answers) == words, name
        assert [each.score for each in answers] == pytest.approx(scores, rel=1e-5), name  # mul reaches thousands


def test_a_vector_has_the_neighbors_of_its_word_and_the_word_itself(vectors: WordVectors) -> None:
    own, *others = vectors.neighbors(vectors['king'] * 7, count=4)
    assert own == ('king', pytest.approx(1))
    assert [each.word for each in others] == [each.word for each in vectors.neighbors('king', count=3)]


def test_an_unknown_word_is_answered_with_the_nearest_by_spelling(vectors: WordVectors) -> None:
    for call in (
        lambda: vectors['womam'],
        lambda: vectors.similarity('king', 'womam'),
        lambda: vectors.neighbors('womam'),
        lambda: vectors.analogy('man', 'womam', 'king'),
    ):
        with pytest.raises(UserError, match=r"'womam' is not in the vocabulary of 12 words\. Did you mean woman\?"):
            call()
    assert 'woman' in vectors
    assert 'womam' not in vectors


def test_words_are_lowered_as_the_text_was(vectors: WordVectors) -> None:
    lowered = WordVectors(vectors.words, vectors.matrix, lower_case=True)
    assert lowered.neighbors('King') == vectors.neighbors('king')
    assert lowered.analogy('MAN', 'woman', 'King') == vectors.analogy('man', 'woman', 'king')
    assert ('QUEEN' in lowered, 'QUEEN' in vectors) == (True, False)


def test_many_analogies_at_once_have_the_answers_of_each(vectors: WordVectors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('flax_transformer.tasks.embeddings.vectors._CHUNK', 4)
    questions = np.array([[1, 2, 3], [3, 1, 2], [5, 6, 1], [2, 3, 8], [4, 4, 1]], np.int32)
    found = vectors.answers(questions)
    alone = [vectors.analogy(*(vectors.words[i] for i in row), count=1)[0].word for row in questions]
    assert [vectors.words[i] for i in found] == alone
    assert vectors.answers(questions[:0]).shape == (0,)


def test_a_vector_of_zeros_is_near_to_nothing() -> None:
    vectors = WordVectors(['none', 'one', 'two'], [[0, 0], [1, 0], [1, 1]])
    assert vectors.similarity('none', 'one') == 0
    assert [each.score for each in vectors.neighbors('none')] == [0, 0]
    assert vectors.neighbors('one')[-1] == ('none', 0)


def test_saved_vectors_are_loaded_to_the_bit(vectors: WordVectors, tmp_path: Path) -> None:
    for name, form in (('a.bin', None), ('a.txt', None), ('a.glove', 'glove')):
        vectors.save(tmp_path / name, form)
        found = WordVectors.load(tmp_path / name)
        assert found.words == vectors.words
        assert found.matrix.tobytes() == vectors.matrix.tobytes()


@pytest.mark.parametrize(
    ('words', 'matrix', 'message'),
    [
        (['a', 'b', 'a'], np.ones((3, 2)), "'a' occurs twice"),
        ([], np.ones((0, 2)), '0 words'),
        (['a', 'b'], [[1, 2], [3, np.nan]], "vector of 'b' is not finite"),
    ],
)
def test_what_is_no_vocabulary_is_refused(words: list[str], matrix: np.ndarray, message: str) -> None:
    with pytest.raises(UserError, match=message):
        WordVectors(words, matrix)


def test_a_file_given_as_a_run_is_named_as_one() -> None:
    with pytest.raises(UserError, match=r'words\.bin is a file'):
        WordVectors.from_run(FOLDER / 'words.bin')
