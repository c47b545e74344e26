"""BLEU as its paper writes it, on tokens, to be read (Papineni et al. 2002, sections 2.1 to 2.3).

Scores that are reported come from sacreBLEU (`metrics.score`); these functions agree with it, without smoothing.
"""

import math
from collections import Counter
from collections.abc import Sequence

Tokens = Sequence[str]


def ngrams(tokens: Tokens, n: int) -> Counter[tuple[str, ...]]:
    """How often each n-gram comes.

    >>> ngrams(['the', 'cat', 'the', 'cat'], 2)[('the', 'cat')]
    2
    """
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


def clipped_matches(hypothesis: Tokens, references: Sequence[Tokens], n: int) -> tuple[int, int]:
    """(matches, n-grams) of a hypothesis: an n-gram counts no more often than in the reference that has it most.

    >>> clipped_matches(['the'] * 7, [['the', 'cat', 'is', 'on', 'the', 'mat']], 1)
    (2, 7)
    """
    ours = ngrams(hypothesis, n)
    most: Counter[tuple[str, ...]] = Counter()
    for reference in references:
        most |= ngrams(reference, n)
    return (ours & most).total(), ours.total()


def brevity_penalty(length: int, reference_length: int) -> float:
    """1 for a corpus as long as its references or longer, else exp(1 - reference_length / length)."""
    if length >= reference_length:
        return 1.0
    return math.exp(1.0 - reference_length / length) if length else 0.0


def closest_length(hypothesis: Tokens, references: Sequence[Tokens]) -> int:
    """The length of the reference nearest in length; of two as near, the shorter."""
    return min((abs(len(reference) - len(hypothesis)), len(reference)) for reference in references)[1]


def bleu_tok(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]], *, max_n: int = 4) -> float:
    """BLEU of a corpus of tokens, 0 to 100: brevity penalty times the geometric mean of the clipped precisions.

    0 where some precision is 0: nothing is smoothed.

    Args:
      references: for each hypothesis its references, one or more.
    """
    pairs = list(zip(hypotheses, references, strict=True))
    total_log = 0.0
    for n in range(1, max_n + 1):
        counts = [clipped_matches(hypothesis, theirs, n) for hypothesis, theirs in pairs]
        matches, total = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
        if not matches:
            return 0.0
        total_log += math.log(matches / total)
    length = sum(len(hypothesis) for hypothesis in hypotheses)
    reference_length = sum(closest_length(hypothesis, theirs) for hypothesis, theirs in pairs)
    return 100.0 * brevity_penalty(length, reference_length) * math.exp(total_log / max_n)
