"""Maps of vectors, and the table of words by features."""

import numpy as np
import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.embeddings.maps import Feature, feature_direction, featurized, largest_dimensions, pca, tsne
from flax_transformer.tasks.embeddings.vectors import WordVectors


def test_pca_keeps_the_largest_differences_whichever_way_vectors_are_turned() -> None:
    generator = np.random.default_rng(0)
    flat = np.zeros((30, 8))
    flat[:, :2] = generator.standard_normal((30, 2)) * [5, 2]
    turned = flat @ np.linalg.qr(generator.standard_normal((8, 8)))[0] + 3
    points = pca(turned)
    distances = np.linalg.norm(points[:, None] - points[None], axis=-1)
    assert distances == pytest.approx(np.linalg.norm(flat[:, None] - flat[None], axis=-1))
    assert points.std(axis=0)[0] > points.std(axis=0)[1]
    assert (points[np.abs(points).argmax(axis=0), [0, 1]] > 0).all()


def test_tsne_keeps_near_vectors_near_and_is_the_same_every_time() -> None:
    pytest.importorskip('sklearn')
    centres = np.repeat(np.eye(3) * 10, 5, axis=0)
    matrix = centres + np.random.default_rng(0).standard_normal((15, 3))
    points = tsne(matrix)
    np.testing.assert_array_equal(points, tsne(matrix))
    nearest = np.linalg.norm(points[:, None] - points[None], axis=-1) + 1e9 * np.eye(15)
    assert (nearest.argmin(axis=1) // 5 == np.arange(15) // 5).all()


def test_a_word_is_not_measured_by_itself() -> None:
    vectors = WordVectors(['king', 'queen', 'man', 'apple'], np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1], [0, 1, 0.0]]))
    royal = Feature(('king', 'queen', 'unknown'), ('man', 'apple'))
    without = feature_direction(vectors, royal, without=('king',))
    assert np.linalg.norm(without) == pytest.approx(1)
    found = featurized(vectors, ['king', 'queen'], {'royal': royal, 'like apples': Feature(('apple',))})
    assert found[0, 0] == pytest.approx(vectors.units[0] @ without, abs=1e-6)
    with pytest.raises(UserError, match='has none of apple; expected some'):
        featurized(vectors, ['apple'], {'like apples': Feature(('apple',))})
    assert largest_dimensions(np.array([0.6, 0.0, -0.8]), count=2) == [
        (2, pytest.approx(0.64)),
        (0, pytest.approx(0.36)),
    ]
