"""How well recordings are written down."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from flax_transformer.common.installing import imported
from flax_transformer.tasks.evaluation import bootstrap_interval


class Errors(NamedTuple):
    """The fewest changes that make transcripts from references, [N]."""

    substitutions: np.ndarray
    deletions: np.ndarray
    insertions: np.ndarray
    length: np.ndarray  # words, or characters, of the reference

    @property
    def count(self) -> np.ndarray:
        return self.substitutions + self.deletions + self.insertions


def jiwer() -> Any:
    return imported('jiwer', 'speech', 'an error rate')


def errors(
    references: Sequence[str], transcripts: Sequence[str], *, unit: Literal['words', 'characters'] = 'words'
) -> Errors:
    """The errors of each utterance, in words or in characters."""
    process = getattr(jiwer(), f'process_{unit}')
    counts = np.zeros((4, len(references)), int)
    for i, (reference, transcript) in enumerate(zip(references, transcripts, strict=True)):
        if not reference:  # jiwer refuses it
            counts[2, i] = len(transcript.split() if unit == 'words' else transcript)
            continue
        changes = process(reference, transcript)
        length = changes.hits + changes.substitutions + changes.deletions
        counts[:, i] = changes.substitutions, changes.deletions, changes.insertions, length
    return Errors(*counts)


def scores(references: Sequence[str], transcripts: Sequence[str]) -> dict[str, Any]:
    """All scores of at least one utterance; errors are of words. `exact` is the share of utterances without one.

    The word error rate is above 1 if much is inserted, its interval the 95 % of the bootstrap over utterances.
    """
    words = errors(references, transcripts)
    low, high = bootstrap_interval(words.count, words.length)
    return {
        'word_error_rate': rate(words),
        'word_error_rate_low': low,
        'word_error_rate_high': high,
        'character_error_rate': rate(errors(references, transcripts, unit='characters')),
        'exact': float((words.count == 0).mean()),
        'substitutions': int(words.substitutions.sum()),
        'deletions': int(words.deletions.sum()),
        'insertions': int(words.insertions.sum()),
        'num_words': int(words.length.sum()),
        'num_utterances': len(references),
    }


def rate(changes: Errors) -> float:
    return float(changes.count.sum() / max(changes.length.sum(), 1))
