"""Minimum Bayes risk: the translation that is most like the others (Kumar and Byrne 2004)."""

import functools
from collections.abc import Callable, Sequence

import numpy as np

from flax_transformer.tasks.translation.score_tokens import score_tokens


def expected_utilities(
    texts: Sequence[str], weights: Sequence[float], utility: str, language: str | None = None
) -> np.ndarray:
    """The utility of each text, averaged over all texts as references, by their weights.

    Args:
      texts: the candidates, which are also the references.
      weights: unnormalized probabilities of the texts.
      utility: `bleu` (sentence BLEU with smoothing `exp` and effective order) or `chrf` (chrF2), both 0 to 100.
      language: of the texts, whose tokens BLEU counts.
    """
    unique = list(dict.fromkeys(texts))
    mass = np.zeros(len(unique))
    for text, weight in zip(texts, weights, strict=True):
        mass[unique.index(text)] += weight
    mass /= mass.sum()
    score = _utility(utility, language)
    table = np.array([[score(ours, theirs) for theirs in unique] for ours in unique])
    expected = dict(zip(unique, table @ mass, strict=True))
    return np.array([expected[text] for text in texts])


@functools.cache
def _utility(name: str, language: str | None) -> Callable[[str, str], float]:
    # A slow import that no other search needs.
    from sacrebleu.metrics import BLEU, CHRF

    if name == 'bleu':
        metric = BLEU(effective_order=True, tokenize=score_tokens(language).bleu)
    elif name == 'chrf':
        metric = CHRF()
    else:
        raise ValueError(f'utility={name!r}: expected bleu or chrf')
    return lambda ours, theirs: metric.sentence_score(ours, [theirs]).score
