"""Faults that only show when pairs are compared, within a corpus and between corpora."""

import numpy as np

from flax_transformer.data.audit.alignment import Stretch, shifted_stretches
from flax_transformer.data.audit.chunks import EXAMPLES, Hit
from flax_transformer.data.audit.reading import CorpusFacts
from flax_transformer.data.audit.repeats import NO_KEY, contradictions, repeated_pairs, shared_pairs

_MEMORISED = 0.9  # share of a test set in the training data at which its score means nothing


def find_overlaps(corpora: list[CorpusFacts]) -> dict[tuple[int, str], str]:
    """Adds what comparing shows to the corpora's counts and examples; returns details by corpus and kind."""
    details = {}
    for number, facts in enumerate(corpora):
        if stretches := shifted_stretches(facts.pairs.lengths, facts.pairs.signs):
            indices = np.concatenate([np.arange(stretch.first, stretch.last + 1) for stretch in stretches])
            _add(facts, 'shifted', indices, [stretch.first for stretch in stretches])
            details[number, 'shifted'] = '; '.join(map(_described, stretches[:EXAMPLES]))
    _compare_training([facts for facts in corpora if facts.role == 'train'])
    _compare_with_training(corpora)
    _compare_held_out(corpora)
    return details


def _described(stretch: Stretch) -> str:
    side = 'after' if stretch.offset > 0 else 'before'
    return (
        f'from pair {stretch.first + 1:,} to about {stretch.last + 1:,} each source fits the target one line {side} it'
    )


def _add(facts: CorpusFacts, kind: str, indices: np.ndarray, shown: list[int] | None = None, side: int = 0) -> None:
    """Counts pairs, the first of them as examples; their text is read later."""
    if len(indices):
        facts.counts[kind] += len(indices)
        first = indices[:EXAMPLES].tolist() if shown is None else shown[:EXAMPLES]
        facts.examples.setdefault(kind, []).extend(Hit(index, side, '', '') for index in first)
        facts.reject(kind, indices)


def _compare_training(training: list[CorpusFacts]) -> None:
    """Duplicates and contradictions across training corpora of the same language pair."""
    for languages in sorted({facts.languages for facts in training}):
        group = [facts for facts in training if facts.languages == languages]
        bounds = np.cumsum([0, *map(len, group)])
        sources, targets = np.concatenate([facts.pairs.keys for facts in group], axis=1)
        exact = np.concatenate([facts.pairs.exact for facts in group])
        for kind, indices in (
            ('duplicate', repeated_pairs(sources, targets, exact)),
            ('contradiction', contradictions(sources, targets)),
        ):
            for facts, first, last in zip(group, bounds[:-1], bounds[1:], strict=True):
                _add(facts, kind, indices[(indices >= first) & (indices < last)] - first)


def _compare_with_training(corpora: list[CorpusFacts]) -> None:
    """Held-out sentences in the training data, on either side, language by language."""
    training = [facts for facts in corpora if facts.role == 'train']
    held_out = [facts for facts in corpora if facts.role != 'train']
    for facts in held_out:
        _add(facts, 'leaked', _found_in(facts, training))
        if facts.role == 'test':
            for other in training:
                shared = shared_pairs(*facts.pairs.keys, other.pairs.keys) if other.languages == facts.languages else []
                if len(facts) and len(shared) >= _MEMORISED * len(facts):
                    _add(facts, 'test_is_training', np.asarray(shared))
    for facts in training:
        if facts.reasons is not None:
            facts.reject('leaked', _found_in(facts, held_out))


def _found_in(facts: CorpusFacts, others: list[CorpusFacts]) -> np.ndarray:
    """The indices of pairs with a sentence that others have in the same language, on either side."""
    found = np.zeros(len(facts), bool)
    for keys, language in zip(facts.pairs.keys, facts.languages, strict=True):
        for other in others:
            for other_keys, other_language in zip(other.pairs.keys, other.languages, strict=True):
                if other_language == language:
                    found |= np.isin(keys, other_keys) & (keys != NO_KEY)
    return np.flatnonzero(found)


def _compare_held_out(corpora: list[CorpusFacts]) -> None:
    for test in corpora:
        for other in corpora:
            if test.role == 'test' and other.role == 'validation' and test.languages == other.languages:
                _add(test, 'validation_is_test', shared_pairs(*test.pairs.keys, other.pairs.keys))
