"""Taking a direction out of word vectors (Bolukbasi et al. 2016, section 5): bias direction, neutralize, equalize.

It hides a bias more than it removes it: words that were biased alike stay neighbours (Gonen and Goldberg 2019).
`bias.remaining_bias` measures that.
"""

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.embeddings.nearest import normalized
from flax_transformer.tasks.embeddings.vectors import WordVectors

Pair = tuple[str, str]


def bias_direction(vectors: WordVectors, pairs: Sequence[Pair]) -> np.ndarray:
    """The direction [D], of length 1, in which the words of each pair differ; towards the first words.

    Of one pair the normalized difference of its vectors; of several, the first principal component of the vectors of
    all pairs, each pair around its own mean (section 5, step 1, with one direction). Vectors have length 1.

    Raises UserError for an unknown word, or if no pair differs.
    """
    if not pairs:
        raise UserError('got no pair of words; expected at least one, such as (she, he)')
    for pair in pairs:
        if len(pair) != 2:
            raise UserError(f'got {pair} as a pair; expected two words, such as (she, he)')
    first, second = (vectors.units[vectors.ids_of(words)].astype(np.float64) for words in zip(*pairs, strict=True))
    differences = first - second
    # Around its mean a pair is plus and minus half its difference: the component is that of the differences.
    direction = np.linalg.svd(differences, full_matrices=False)[2][0]
    if not differences.any():
        raise UserError(f'the words of {pairs[0]} have the same vector; expected a pair that differs')
    return direction if (differences @ direction).sum() >= 0 else -direction


def component(vectors: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """The part of vectors [..., D] along a direction [D] of any length: (v . g) / |g|^2 * g."""
    return np.multiply.outer(vectors @ direction / (direction @ direction), direction)


def neutralize(vectors: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Vectors [..., D] without their part along a direction [D]: v - v_B."""
    return vectors - component(vectors, direction)


def equalize(first: np.ndarray, second: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two vectors [D] of length 1, made to differ along a direction alone, and by as much to either side.

    mu = (w1 + w2) / 2 keeps its part orthogonal to the direction, nu = mu - mu_B. Each word becomes
    nu + sqrt(1 - |nu|^2) * (w_B - mu_B) / |w_B - mu_B|: of length 1, and as near to every neutral vector as the other.

    Raises UserError if the two have the same part along the direction.
    """
    mean = (first + second) / 2
    rest = neutralize(mean, direction)
    length = np.sqrt(max(0.0, 1 - rest @ rest))
    offsets = [component(word, direction) - component(mean, direction) for word in (first, second)]
    sizes = [np.linalg.norm(offset) for offset in offsets]
    if min(sizes) < 1e-9:
        raise UserError('the two vectors do not differ along the direction; expected a pair that does')
    one, other = (rest + length * offset / size for offset, size in zip(offsets, sizes, strict=True))
    return one, other


class Debiased(NamedTuple):
    """Vectors without a bias direction, and what was done to them."""

    vectors: WordVectors
    neutralized: int  # words
    equalized: int  # pairs with both words in the vocabulary


def debiased(
    vectors: WordVectors, direction: np.ndarray, *, specific: Container[str], pairs: Iterable[Pair] = ()
) -> Debiased:
    """All words but the `specific` ones neutralized, then pairs equalized; vectors of length 1 ("hard debiasing").

    Args:
      direction: [D], by `bias_direction`.
      specific: words that keep their part along the direction, because they mean it: grandmother, not doctor.
      pairs: words that every neutral word is to be equally near to: grandmother and grandfather.

    Raises UserError if a word is in two pairs, as the second would undo the first, and for a direction of zeros.
    """
    direction, width = np.asarray(direction, np.float64), vectors.matrix.shape[1]
    if direction.shape != (width,) or not np.isfinite(direction).all() or not direction.any():
        raise UserError(f'expected a direction of {width} finite values, not all zero; `bias_direction` makes one')
    pairs = [pair for pair in pairs if pair[0] in vectors and pair[1] in vectors]
    kept: set[str] = set()
    for pair in pairs:
        for word in pair:
            if word in kept:
                raise UserError(f'the word {word!r} occurs twice in the pairs; expected each word in one pair')
            kept.add(word)
    matrix = vectors.units.astype(np.float64)
    is_neutral = np.array([word not in specific and word not in kept for word in vectors.words])
    matrix[is_neutral] = normalized(neutralize(matrix[is_neutral], direction))
    for pair in pairs:
        one, other = vectors.ids_of(pair)
        matrix[one], matrix[other] = equalize(matrix[one], matrix[other], direction)
    return Debiased(WordVectors(vectors.words, matrix), int(is_neutral.sum()), len(pairs))
