"""How biased word vectors are, how a bias is taken out, and what of it is left.

Direct bias (Bolukbasi et al. 2016, section 4), WEAT (Caliskan et al. 2017), and the traces of Gonen and Goldberg 2019.
A direction is taken out by neutralizing and equalizing (Bolukbasi et al. 2016, section 5). It hides a bias more than it
removes it: words that were biased alike stay neighbors. `remaining_bias` measures that.
"""

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from flax_transformer.common.errors import UserError

from .vectors import WordVectors, normalized

_MOST_EXACT = 20_000  # partitions of a permutation test that are all tried
_NEIGHBORS = 100  # Gonen and Goldberg 2019, section 4


def biases(vectors: WordVectors, words: Iterable[str], direction: np.ndarray) -> np.ndarray:
    """[N]: the cosine of each word with a direction [D] of length 1."""
    return vectors.units[vectors.ids_of(words)].astype(np.float64) @ direction


def direct_bias(vectors: WordVectors, words: Iterable[str], direction: np.ndarray) -> float:
    """The mean absolute cosine of words that should be neutral with a direction (c = 1); 0 is none."""
    return float(np.abs(biases(vectors, words, direction)).mean())


class Association(NamedTuple):
    effect: float  # standard deviations, from -2 to 2; 0 is none
    p: float  # share of the partitions of the target words whose difference is at least as large
    words: tuple[int, int, int, int]  # how many of the four lists the vocabulary has


def association(
    vectors: WordVectors,
    targets: tuple[Sequence[str], Sequence[str]],
    attributes: tuple[Sequence[str], Sequence[str]],
    *,
    samples: int = 10_000,
    seed: int = 0,
) -> Association:
    """WEAT: are the first targets nearer to the first attributes than the second targets are?

    s(w) is the mean cosine of w with the first attributes minus that with the second. The effect is the difference of
    the mean s of both targets, divided by the standard deviation (n - 1) of s over all targets. The permutation test
    is one-sided, over all partitions of the targets, or `samples` random ones if there are too many.

    Unknown words are left out. Raises UserError if too few are left, or if s is the same for all targets.
    """
    lists = [[word for word in words if word in vectors] for words in (*targets, *attributes)]
    for known, given, least in zip(lists, (*targets, *attributes), (2, 2, 1, 1), strict=True):
        if len(known) < least:
            raise UserError(
                f'the vocabulary has {len(known)} of the words {", ".join(given)}; expected at least {least}'
            )

    first, second, for_words, against = (vectors.units[vectors.ids_of(words)].astype(np.float64) for words in lists)
    both = np.concatenate([first, second])
    s = (both @ for_words.T).mean(axis=1) - (both @ against.T).mean(axis=1)
    if np.ptp(s) < 1e-7:  # rounding of float32 cosines
        raise UserError('every target is as near to the attributes; expected targets that differ')

    count = len(first)
    effect = (s[:count].mean() - s[count:].mean()) / s.std(ddof=1)
    return Association(float(effect), _share_above(s, count, samples, seed), tuple(map(len, lists)))


def _share_above(s: np.ndarray, count: int, samples: int, seed: int) -> float:
    """The share of partitions in which the first `count` have at least the sum of the given first."""
    given = s[:count].sum() - 1e-12  # equal sums may differ in rounding
    if comb(len(s), count) <= _MOST_EXACT:
        sums = np.array([s[list(chosen)].sum() for chosen in combinations(range(len(s)), count)])
        return float((sums >= given).mean())
    generator = np.random.default_rng(seed)
    sums = np.array([generator.permutation(s)[:count].sum() for _ in range(samples)])
    return float((1 + (sums >= given).sum()) / (1 + samples))


class RemainingBias(NamedTuple):
    cluster_accuracy: float  # of two clusters taken for the two sides; 0.5 is chance
    neighbor_correlation: float  # Pearson, of a word's bias and the share of its neighbors biased the same way

    @property
    def neighbour_correlation(self) -> float:
        return self.neighbor_correlation


def remaining_bias(
    vectors: WordVectors, was_biased: Sequence[float], words: Sequence[str], *, count: int = 500
) -> RemainingBias:
    """How well words that were biased one way can be told from others by their vectors (Gonen and Goldberg 2019).

    Looks at the `count` words most biased to either side; `was_biased` [N] is by `biases` before debiasing.
    """
    was_biased = np.asarray(was_biased, np.float64)
    count = min(count, len(words) // 2)
    if count < 2:
        raise UserError(f'got {len(words)} words; expected at least 4')
    order = was_biased.argsort()
    chosen = np.concatenate([order[:count], order[-count:]])
    matrix = vectors.units[vectors.ids_of(words)]

    side = np.repeat([False, True], count)
    right = (_two_clusters(matrix[chosen].astype(np.float64)) == side).mean()

    cosines = matrix[chosen] @ matrix.T
    cosines[np.arange(len(chosen)), chosen] = -np.inf
    k = min(_NEIGHBORS, (len(words) - 1) // 2)  # all of few words would be the same for each
    nearest = np.argpartition(-cosines, k - 1, axis=1)[:, :k]
    share = (was_biased[nearest] > 0).mean(axis=1)
    correlation = np.corrcoef(share, was_biased[chosen])[0, 1] if share.std() > 0 else 0.0
    return RemainingBias(float(max(right, 1 - right)), float(correlation))


def _two_clusters(points: np.ndarray) -> np.ndarray:
    """0 or 1, the cluster of each point [N, D]: k-means from both ends of the first principal component."""
    from scipy.cluster.vq import kmeans2

    centered = points - points.mean(axis=0)
    is_second = centered @ np.linalg.svd(centered, full_matrices=False)[2][0] > 0
    centers = [points[~is_second].mean(axis=0), points[is_second].mean(axis=0)]
    return kmeans2(points, np.stack(centers), iter=50, minit='matrix')[1]


Pair = tuple[str, str]


def bias_direction(vectors: WordVectors, pairs: Sequence[Pair]) -> np.ndarray:
    """The direction [D], of length 1, in which the words of each pair differ; toward the first words.

    The first principal component of the vectors of all pairs, at length 1, each pair around its own mean (section 5,
    step 1, with one direction). Raises UserError for an unknown word, or if no pair differs.
    """
    if not pairs:
        raise UserError('got no pair of words; expected at least one, such as (she, he)')
    first, second = (vectors.units[vectors.ids_of(words)].astype(np.float64) for words in zip(*pairs, strict=True))
    differences = first - second
    # Around its mean a pair is plus and minus half its difference: the component is that of the differences.
    direction = np.linalg.svd(differences, full_matrices=False)[2][0]
    if not differences.any():
        raise UserError(f'the words of {pairs[0]} have the same vector; expected a pair that differs')
    return direction if (differences @ direction).sum() >= 0 else -direction


def component(vectors: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """The part of vectors [..., D] along a direction [D] of any length."""
    return np.multiply.outer(vectors @ direction / (direction @ direction), direction)


def neutralize(vectors: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Vectors [..., D] without their part along a direction [D]: v - v_B."""
    return vectors - component(vectors, direction)


def equalize(first: np.ndarray, second: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two vectors [D] of length 1, made to differ along a direction alone, and by as much to either side.

    Both keep the part of their mean orthogonal to the direction, so that they are equally near to every neutral
    vector. Raises UserError if the two have the same part along the direction.
    """
    mean = (first + second) / 2
    rest = neutralize(mean, direction)
    length = np.sqrt(max(0.0, 1 - rest @ rest))
    offsets = [component(word, direction) - component(mean, direction) for word in (first, second)]
    sizes = [np.linalg.norm(offset) for offset in offsets]
    if min(sizes) < 1e-9:
        raise UserError('the two vectors do not differ along the direction; expected a pair that does')
    return rest + length * offsets[0] / sizes[0], rest + length * offsets[1] / sizes[1]


class Debiased(NamedTuple):
    vectors: WordVectors
    neutralized: int  # words
    equalized: int  # pairs with both words in the vocabulary


def debiased(
    vectors: WordVectors, direction: np.ndarray, *, specific: Container[str], pairs: Iterable[Pair] = ()
) -> Debiased:
    """All words but the `specific` ones neutralized, then pairs equalized; vectors of length 1 ("hard debiasing").

    Args:
      direction: [D], by `bias_direction`.
      specific: words that mean the direction, and so keep their part along it: grandmother, not doctor.
      pairs: words that every neutral word is to be equally near to: grandmother and grandfather.

    Raises UserError if a word is in two pairs, as the second would undo the first.
    """
    pairs = [pair for pair in pairs if pair[0] in vectors and pair[1] in vectors]
    kept = Counter(word for pair in pairs for word in pair)
    twice = [word for word, count in kept.items() if count > 1]
    if twice:
        raise UserError(f'the word {twice[0]!r} occurs twice in the pairs; expected each word in one pair')
    matrix = vectors.units.astype(np.float64)
    is_neutral = np.array([word not in specific and word not in kept for word in vectors.words])
    matrix[is_neutral] = normalized(neutralize(matrix[is_neutral], direction))
    for pair in pairs:
        rows = vectors.ids_of(pair)
        matrix[rows] = equalize(*matrix[rows], direction)
    return Debiased(WordVectors(vectors.words, matrix), int(is_neutral.sum()), len(pairs))
