"""What goes with gender, royalty, age or food: directions for features, and a table of words by features."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.embeddings.vectors import WordVectors, normalized

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
    """[D], of length 1: the mean of the words that have a feature less the mean of the others, all of length 1.

    Unknown words are left out, and so are those in `without`. Raises UserError if that leaves none on a side.
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
