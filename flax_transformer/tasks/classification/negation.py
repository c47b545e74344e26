"""A hundred pairs of sentences with and without negation: what a classifier must know beyond its words.

Half of the pairs negate praise, half blame, with the same words of negation. A model that adds up what each word says
cannot have both right: `not` would have to weigh more than `good`, and less than nothing against `boring`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

PAIRS_FILE = Path(__file__).parent / 'negation_pairs.tsv'  # label<TAB>text; two lines are a pair, the plain one first
NEGATIVE, POSITIVE = 'neg', 'pos'


class Pair(NamedTuple):
    """Two sentences that differ in a negation, and so in their label."""

    plain: str
    negated: str
    is_praise: bool  # the plain one; the negated one is then blame

    def labels(self, negative: str = NEGATIVE, positive: str = POSITIVE) -> tuple[str, str]:
        """Of the plain sentence, and of the negated one."""
        return (positive, negative) if self.is_praise else (negative, positive)


class PairScores(NamedTuple):
    """How many pairs a classifier has right."""

    both: int
    plain: int
    negated: int
    of: int


def negation_pairs() -> list[Pair]:
    """The pairs."""
    rows = [line.split('\t') for line in PAIRS_FILE.read_text(encoding='utf-8').splitlines()]
    return [
        Pair(plain, negated, label == POSITIVE)
        for (label, plain), (_, negated) in zip(rows[::2], rows[1::2], strict=True)
    ]


def score_pairs(
    label_of: Callable[[Sequence[str]], Sequence[str]], *, negative: str = NEGATIVE, positive: str = POSITIVE
) -> PairScores:
    """How many pairs have the right labels.

    Args:
      label_of: the labels of texts, such as `lambda texts: [each.label for each in classifier(texts)]`.
      negative: the classifier's name for blame; `positive`: for praise.
    """
    pairs = negation_pairs()
    given = zip(label_of([pair.plain for pair in pairs]), label_of([pair.negated for pair in pairs]), strict=True)
    right = [
        tuple(label == true for label, true in zip(labels, pair.labels(negative, positive), strict=True))
        for labels, pair in zip(given, pairs, strict=True)
    ]
    return PairScores(sum(map(all, right)), *(sum(side) for side in zip(*right, strict=True)), len(pairs))
