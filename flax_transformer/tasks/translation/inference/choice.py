"""Which of a search's hypotheses is the translation."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.decoding.problem import Hypotheses
from flax_transformer.tasks.translation.metrics import score_tokens
from flax_transformer.text.tokenizer import Tokenizer

from .result import (
    Translation,
    distinct,
    has_loop,
    is_untranslated,
    make_translation,
)


def best_of_each(
    found: Sequence[Hypotheses],
    sources: Sequence[str],
    source_ids: Sequence[Sequence[int]],
    tokenizer: Tokenizer,
    decoding: DecodingConfig,
    language: str | None = None,
) -> list[Translation]:
    """The translation of each source that the search, or minimum Bayes risk, ranks first; n_best has the others.

    One with a fault that decoding.pass_over names comes after the best without. `found` are the hypotheses of each
    source, tokens [W, L]; BLEU counts the tokens of `language`.
    """
    is_one_wanted = decoding.mbr == 'none' and decoding.n_best == 1

    def candidate(ranked: Hypotheses, i: int) -> Translation:
        length = ranked.lengths[i]
        ids, gains = ranked.tokens[i][:length], ranked.token_log_probs[i][:length]
        return make_translation(tokenizer, ids, ranked.scores[i], gains, is_finished=bool(ranked.is_finished[i]))

    def is_faulty(one: Translation, source: str, source_ids: Sequence[int]) -> bool:
        if decoding.pass_over == 'nothing':
            return False
        if has_loop(one.token_ids) and not has_loop(source_ids):
            return True
        return decoding.pass_over == 'loops_and_copies' and is_untranslated(source, one.text)

    best = []
    for hypotheses, *line in zip(found, sources, source_ids, strict=True):
        ranks = [i for i in range(len(hypotheses.lengths)) if i == 0 or hypotheses.lengths[i]]
        candidates = [candidate(hypotheses, i) for i in (ranks[:1] if is_one_wanted else ranks)]
        if decoding.mbr != 'none':
            candidates = _by_expected_utility(candidates, decoding, language)
        first, *others = candidates
        if is_faulty(first, *line):
            others = others or [candidate(hypotheses, i) for i in ranks[1:]]
            better = (one for one in others if one.truncated <= first.truncated and not is_faulty(one, *line))
            first = next(better, first)
        if decoding.n_best > 1:
            first = replace(first, n_best=distinct([first, *candidates])[: decoding.n_best])
        best.append(first)
    return best


def _by_expected_utility(
    candidates: list[Translation], decoding: DecodingConfig, language: str | None
) -> list[Translation]:
    log_probs = np.array([candidate.log_prob for candidate in candidates])
    # Samples come as often as they are probable; hypotheses of a beam come once, so they are weighted.
    weights = np.ones(len(candidates)) if decoding.search == 'sample' else np.exp(log_probs - log_probs.max())
    worth = expected_utilities([candidate.text for candidate in candidates], weights, decoding.mbr, language)
    return [candidates[i] for i in np.argsort(-worth, kind='stable')]


def expected_utilities(
    texts: Sequence[str], weights: Sequence[float], utility: str, language: str | None = None
) -> np.ndarray:
    """The utility of each text, averaged over all texts as references, by their unnormalized weights.

    `utility` is `bleu` (sentence BLEU with smoothing `exp` and effective order) or `chrf` (chrF2), both 0 to 100.
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
    from sacrebleu.metrics import BLEU, CHRF  # a slow import that no other search needs

    metric = BLEU(effective_order=True, tokenize=score_tokens(language).bleu) if name == 'bleu' else CHRF()

    def score(ours: str, theirs: str) -> float:
        return metric.sentence_score(ours, [theirs]).score

    return score
