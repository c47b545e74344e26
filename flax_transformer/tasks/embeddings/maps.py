"""What pictures of vectors show: maps by PCA and t-SNE (extra `maps`), and words by features such as gender or age."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.installing import imported
from flax_transformer.tasks.embeddings.vectors import WordVectors, normalized


def pca(matrix: np.ndarray, *, count: int = 2) -> np.ndarray:
    """[N, count]: vectors [N, D] along the directions in which they differ most; each has its largest value above 0."""
    centered = np.asarray(matrix, np.float64)
    centered = centered - centered.mean(axis=0)
    directions = np.linalg.svd(centered, full_matrices=False)[2][:count]
    points = centered @ directions.T
    largest = points[np.abs(points).argmax(axis=0), np.arange(points.shape[1])]
    return points * np.where(largest < 0, -1, 1)  # else the sign would be chance


def tsne(matrix: np.ndarray, *, perplexity: float = 30.0, seed: int = 0) -> np.ndarray:
    """[N, 2]: vectors [N, D] so that near ones stay near (van der Maaten and Hinton 2008), by cosine; starts from PCA.

    What is far apart on the map, and how dense it is, means little.

    Args:
      perplexity: some neighbors that each vector has; at most (N - 1) / 3 is used.

    Raises UserError for fewer than four vectors, or if scikit-learn is not installed.
    """
    if len(matrix) < 4:
        raise UserError(f'got {len(matrix)} vectors; expected at least 4 for a map')
    manifold, threads = (imported(name, 'maps', 't-SNE') for name in ('sklearn.manifold', 'threadpoolctl'))
    perplexity = min(perplexity, (len(matrix) - 1) / 3)
    method = manifold.TSNE(metric='cosine', init='random', perplexity=perplexity, random_state=seed)
    start = pca(matrix)
    method.set_params(init=(start / start[:, 0].std() * 1e-4).astype(np.float32))
    with threads.threadpool_limits(1):  # threads that wait for each other at every step take minutes on a busy machine
        return method.fit_transform(np.asarray(matrix, np.float32))


_COMMON = 10_000  # words, the first of the vocabulary, whose mean stands for no feature


class Feature(NamedTuple):
    """Words that have a feature, and words that have the opposite; without those, common words stand for none."""

    has: tuple[str, ...]
    opposite: tuple[str, ...] = ()


FEATURES = {
    'female': Feature(
        ('woman', 'girl', 'mother', 'daughter', 'sister', 'queen', 'princess', 'she'),
        ('man', 'boy', 'father', 'son', 'brother', 'king', 'prince', 'he'),
    ),
    'royal': Feature(
        ('king', 'queen', 'prince', 'princess', 'throne', 'crown', 'royal', 'monarch'),
        ('man', 'woman', 'boy', 'girl', 'chair', 'hat', 'people', 'citizen'),
    ),
    'old': Feature(
        ('old', 'elderly', 'adult', 'adults', 'grandfather', 'grandmother', 'ancient'),
        ('young', 'child', 'children', 'boy', 'girl', 'baby', 'new'),
    ),
    'food': Feature(('food', 'bread', 'meat', 'fruit', 'rice', 'cheese', 'sugar', 'vegetables', 'eat', 'cooked')),
}


def feature_direction(vectors: WordVectors, feature: Feature, *, without: Sequence[str] = ()) -> np.ndarray:
    """Returns [D], of length 1: the mean of the known words that have a feature less that of the others.

    Raises UserError if that leaves none on a side.
    """
    means = []
    for words in feature:
        known = [word for word in words if word in vectors and word not in without]
        if words and not known:
            raise UserError(f'the vocabulary has none of {", ".join(words)}; expected some')
        rows = vectors.units[vectors.ids_of(known)] if words else vectors.units[:_COMMON]
        means.append(rows.astype(np.float64).mean(axis=0))
    return normalized(means[0] - means[1]).astype(np.float64)


def featurized(vectors: WordVectors, words: Sequence[str], features: Mapping[str, Feature] = FEATURES) -> np.ndarray:
    """[F, W]: how much of each feature each word has, the cosine with its direction.

    A word takes no part in the direction that it is measured by; else it would have the feature by definition.
    """
    units = vectors.units[vectors.ids_of(words)].astype(np.float64)

    def cosines(feature: Feature) -> list[float]:
        directions = [feature_direction(vectors, feature, without=(word,)) for word in words]
        return [unit @ direction for unit, direction in zip(units, directions, strict=True)]

    return np.array([cosines(feature) for feature in features.values()])


def largest_dimensions(direction: np.ndarray, *, count: int = 3) -> list[tuple[int, float]]:
    """The dimensions, with their shares of a direction [D] of length 1: squares, which add up to 1."""
    shares = direction**2
    return [(int(i), float(shares[i])) for i in np.argsort(-shares)[:count]]
