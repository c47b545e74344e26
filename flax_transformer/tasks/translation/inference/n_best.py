"""From the hypotheses of a sentence to its translation."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.decoding.problem import Hypotheses
from flax_transformer.tasks.translation.inference.result import Translation, distinct, one_line
from flax_transformer.text.tokenizer import Tokenizer


def make_translation(
    tokenizer: Tokenizer, ids: Sequence[int], score: float, gains: Sequence[float], *, is_finished: bool
) -> Translation:
    """The translation of these ids; `gains` are their log-probabilities in nats."""
    return Translation(
        text=one_line(tokenizer.decode(ids)),
        score=float(score),
        log_prob=float(np.sum(gains, dtype=np.float64)),
        num_tokens=len(ids),
        truncated=not is_finished,
        token_ids=tuple(map(int, ids)),
        tokens=tuple(map(tokenizer.piece, ids)),
        token_log_probs=tuple(map(float, gains)),
    )


def best_of(
    found: Hypotheses, tokenizer: Tokenizer, decoding: DecodingConfig, language: str | None = None
) -> Translation:
    """The translation that the search, or minimum Bayes risk, ranks first; with the n best if n_best is above 1.

    Args:
      found: the hypotheses of one sentence, tokens [W, L].
      language: the target language, whose tokens BLEU counts.
    """
    wanted = len(found.lengths) if decoding.mbr != 'none' or decoding.n_best > 1 else 1
    candidates = [
        make_translation(
            tokenizer,
            found.tokens[i][: found.lengths[i]],
            found.scores[i],
            found.token_log_probs[i][: found.lengths[i]],
            is_finished=bool(found.is_finished[i]),
        )
        for i in range(wanted)
        if i == 0 or found.lengths[i]
    ]
    if decoding.mbr != 'none':
        candidates = _by_expected_utility(candidates, decoding, language)
    if decoding.n_best == 1:
        return candidates[0]
    n_best = distinct(candidates)[: decoding.n_best]
    return replace(n_best[0], n_best=n_best)


def _by_expected_utility(
    candidates: list[Translation], decoding: DecodingConfig, language: str | None
) -> list[Translation]:
    from flax_transformer.tasks.translation.inference.mbr import expected_utilities

    log_probs = np.array([candidate.log_prob for candidate in candidates])
    # Samples come as often as they are probable; hypotheses of a beam come once, so they are weighted.
    weights = np.ones(len(candidates)) if decoding.search == 'sample' else np.exp(log_probs - log_probs.max())
    worth = expected_utilities([candidate.text for candidate in candidates], weights, decoding.mbr, language)
    return [candidates[i] for i in np.argsort(-worth, kind='stable')]
