"""Which rows of an embedding start from a file of vectors, and which mistakes are one message."""

from pathlib import Path

import numpy as np
import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.data.vector_files import pretrained_rows, with_pretrained, write_vectors

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
    assert said == ['vectors.txt: vectors of 5 tokens; 2 start at random (queen, x)']


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
        ('none.bin', ['king'], 2, r'model\.embedding_from: .*none\.bin does not exist; relative paths start at'),
        ('vectors.txt', ['king'], 3, 'has vectors of 2 values, but model.d_model=3; set --model.d-model 2'),
        ('vectors.txt', ['x'], 3, 'has vectors of 2 values'),
        ('vectors.txt', [None, 'x'], 2, 'has none of the 2 tokens'),
        ('bad.txt', ['king'], 2, r'model\.embedding_from: .*bad\.txt, line 1: got 0 numbers'),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    root: str, name: str, tokens: list[str | None], width: int, message: str
) -> None:
    Path(root, 'bad.txt').write_text('king\n')
    with pytest.raises(UserError, match=message):
        pretrained_rows(name, root, tokens, width, say=str)
