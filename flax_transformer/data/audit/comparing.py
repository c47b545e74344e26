"""Faults that show only where pairs are compared with each other, within a corpus and between corpora."""

from collections import Counter

import numpy as np

from flax_transformer.data.audit.alignment import Stretch, shifted_stretches
from flax_transformer.data.audit.chunks import EXAMPLES, Hit
from flax_transformer.data.audit.reading import CorpusFacts
from flax_transformer.data.audit.repeats import NO_KEY, contradictions, repeated_pairs, shared_pairs
from flax_transformer.tasks.translation.config import Config
from flax_transformer.text.tokenizer import Tokenizer

_MEMORISED = 0.9  # share of a test set's pairs in the training data from which on its score says nothing


def compare(corpora: list[CorpusFacts]) -> dict[tuple[int, str], str]:
    """Adds to the corpora's counts and examples what comparing shows; returns details by corpus and kind."""
    details = {}
    for number, facts in enumerate(corpora):
        if stretches := shifted_stretches(facts.lengths, facts.signs):
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
    """Counts pairs, with the first of them as examples; their text is read later."""
    if len(indices):
        facts.counts[kind] += len(indices)
        first = indices[:EXAMPLES].tolist() if shown is None else shown[:EXAMPLES]
        facts.examples.setdefault(kind, []).extend(Hit(index, side, '', '') for index in first)
        facts.reject(kind, indices)


def _compare_training(training: list[CorpusFacts]) -> None:
    """Duplicates and contradictions, over all training corpora of the same two languages."""
    for languages in sorted({facts.languages for facts in training}):
        group = [facts for facts in training if facts.languages == languages]
        bounds = np.cumsum([0, *map(len, group)])
        sources, targets = np.concatenate([facts.keys for facts in group], axis=1)
        exact = np.concatenate([facts.exact for facts in group])
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
        leaked = np.zeros(len(facts), bool)
        for side, language in enumerate(facts.languages):
            for other in training:
                for other_side in (0, 1):
                    if other.languages[other_side] == language:
                        leaked |= np.isin(facts.keys[side], other.keys[other_side]) & (facts.keys[side] != NO_KEY)
        _add(facts, 'leaked', np.flatnonzero(leaked))
        if facts.role == 'test':
            for other in training:
                shared = shared_pairs(*facts.keys, other.keys) if other.languages == facts.languages else []
                if len(facts) and len(shared) >= _MEMORISED * len(facts):
                    _add(facts, 'test_is_training', np.asarray(shared))
    for facts in training:
        rejected = np.zeros(len(facts), bool)
        for side, language in enumerate(facts.languages):
            keys = [other.keys[i] for other in held_out for i in (0, 1) if other.languages[i] == language]
            if keys and facts.reasons is not None:
                rejected |= np.isin(facts.keys[side], np.concatenate(keys)) & (facts.keys[side] != NO_KEY)
        facts.reject('leaked', np.flatnonzero(rejected))


def _compare_held_out(corpora: list[CorpusFacts]) -> None:
    for test in corpora:
        for other in corpora:
            if test.role == 'test' and other.role == 'validation' and test.languages == other.languages:
                _add(test, 'validation_is_test', shared_pairs(*test.keys, other.keys))


def uncovered_characters(training: list[CorpusFacts], config: Config, tokenizer: Tokenizer | None) -> Counter[str]:
    """The characters of the training text that have no piece of their own, and how often they come.

    Without a tokenizer: those that are left when the most frequent ones make up tokenizer.character_coverage.
    """
    tally: Counter[str] = Counter()
    for facts in training:
        tally.update(facts.characters)
    if tokenizer is not None:
        return Counter({character: n for character, n in tally.items() if not tokenizer.has_piece_for(character)})
    needed, covered = config.tokenizer.character_coverage * tally.total(), 0
    left: Counter[str] = Counter()
    for character, count in sorted(tally.items(), key=lambda item: (-item[1], item[0])):
        if covered >= needed:
            left[character] = count
        covered += count
    return left
