"""Minimum Bayes risk: of several translations the one that is most like the others (Kumar and Byrne 2004)."""

from collections.abc import Callable, Sequence

import numpy as np


def expected_utilities(texts: Sequence[str], weights: Sequence[float], utility: str) -> np.ndarray:
    """What each text is worth on average when each text in turn, with its weight, is taken for the truth.

    Args:
      texts: the candidates, which are the references too.
      weights: probabilities of the texts, in any scale.
      utility: `bleu` (sentence BLEU with smoothing `exp` and effective order) or `chrf` (chrF2), both 0 to 100.
    """
    unique = list(dict.fromkeys(texts))
    mass = np.zeros(len(unique))
    for text, weight in zip(texts, weights, strict=True):
        mass[unique.index(text)] += weight
    mass /= mass.sum()
    compare = _utility(utility)
    table = np.array([[compare(ours, theirs) for theirs in unique] for ours in unique])
    worth = dict(zip(unique, table @ mass, strict=True))
    return np.array([worth[text] for text in texts])


def _utility(name: str) -> Callable[[str, str], float]:
    # Imported when first used: no other search waits for it.
    from sacrebleu.metrics import BLEU, CHRF

    if name == 'bleu':
        metric = BLEU(effective_order=True)
    elif name == 'chrf':
        metric = CHRF()
    else:
        raise ValueError(f'utility={name!r}: expected bleu or chrf')
    return lambda ours, theirs: metric.sentence_score(ours, [theirs]).score
