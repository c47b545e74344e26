"""Analogies by section and correlations with people, as gensim counts them; files of another form are one message."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import corpus

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.embeddings.evaluate import (
    read_analogies,
    read_pairs,
    score_analogies,
    score_pairs,
    total_of,
)
from flax_transformer.tasks.embeddings.vectors import WordVectors

# man, woman, king, queen, uncle and aunt are exact; boy and girl are not.
WORDS = {
    'man': [1, 0, 0, 0], 'woman': [1, 1, 0, 0], 'king': [1, 0, 1, 0], 'queen': [1, 1, 1, 0], 'Uncle': [1, 0, 0, 1],
    'aunt': [1, 1, 0, 1], 'boy': [0.5, 0, 0, -1], 'girl': [0.5, -1, 0, -1], 'rare': [0, 0, 0, 0.1],
}  # fmt: skip
ANALOGIES = """: family
Man Woman King Queen
man woman uncle aunt
man woman boy girl
: names
man woman RARE queen
man woman Athens Greece

: empty
"""


@pytest.fixture(scope='module')
def vectors() -> WordVectors:
    return WordVectors(WORDS, np.array(list(WORDS.values())))


def test_analogies_are_counted_by_section(vectors: WordVectors, tmp_path: Path) -> None:
    file = tmp_path / 'questions.txt'
    file.write_text(ANALOGIES)
    family, names, empty = found = score_analogies(vectors, file, among=8)
    assert tuple(family) == ('family', 2, 3, 3)
    assert family.accuracy == pytest.approx(2 / 3)
    assert tuple(names) == ('names', 0, 0, 2)  # `rare` is the ninth word
    assert np.isnan(names.accuracy)
    assert tuple(empty) == ('empty', 0, 0, 0)
    assert tuple(total_of(found)) == ('all', 2, 3, 5)
    assert score_analogies(vectors, file, among=None)[1].asked == 1


def test_an_answer_is_not_a_question_word_in_another_case(tmp_path: Path) -> None:
    """gensim drops every word whose spelling in upper case is that of a, b or c."""
    file = tmp_path / 'questions.txt'
    file.write_text(': family\nman woman king queen\nman woman uncle aunt\n')
    words = WORDS | {'King': [0.4, 0.7, 0.7, 0], 'KING': [0.4, 0.7, 0.7, 0.1], 'uncle': [0.4, 0.7, 0, 0.7]}
    cased = WordVectors(words, np.array(list(words.values())))
    assert score_analogies(cased, file)[0].right == 2


def test_correlations_are_of_ranks(vectors: WordVectors, tmp_path: Path) -> None:
    file = tmp_path / 'pairs.tsv'
    file.write_text('# a comment\nMan\twoman\t9\nman\tking\t9\nman\tgirl\t2\nman\tqueen\t5\nman\tAthens\t1\n\n')
    found = score_pairs(vectors, file)
    assert (found.name, found.asked, found.total) == ('pairs', 4, 5)
    assert found.spearman == pytest.approx(1)
    file.write_text('man\twoman\t1\nman\tqueen\t5\nman\tgirl\t9\n')
    assert score_pairs(vectors, file).spearman == pytest.approx(-1)
    for content in ('man\twoman\t1\n', 'man\twoman\t1\nwoman\tman\t1\n', 'x\ty\t1\n'):
        file.write_text(content)
        assert np.isnan(score_pairs(vectors, file).spearman)


@pytest.mark.parametrize(
    ('read', 'content', 'message'),
    [
        (read_analogies, '', 'has no analogies'),
        (read_analogies, ': family\na b c d\na b c\n', r"line 3: got 3 words, 'a b c'; expected four"),
        (read_analogies, 'a b c d\n', 'line 1: expected the name of a section first'),
        (read_analogies, ': family\na b c d\n: family\n', "line 3: got ': family', expected `: ` and a new name"),
        (read_analogies, ': all\na b c d\n', "line 1: got ': all', expected `: ` and a new name .*, not 'all'"),
        (read_pairs, '# nothing\n', 'has no pairs'),
        (read_pairs, 'a\tb\n', r"line 1: got 'a\\tb', expected word<TAB>word<TAB>number"),
        (read_pairs, 'a\tb\tnan\n', 'line 1: nan is not finite'),
    ],
)
def test_a_file_of_another_form_is_refused(read: Callable, content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / 'questions.txt'
    file.write_text(content)
    with pytest.raises(UserError, match=message):
        read(file)


def test_the_usual_sets_are_read_whole() -> None:
    sections = read_analogies(corpus('wordvec_eval', 'questions-words.txt'))
    assert len(sections) == 14
    assert sum(map(len, sections.values())) == 19_544
    assert len(read_pairs(corpus('wordvec_eval', 'wordsim353.tsv'))) == 353
    assert len(read_pairs(corpus('wordvec_eval', 'simlex999.tsv'))) == 999
