"""Opinions on films and restaurants, half of them negated: texts that are generated, so they need no download.

They teach what a bag of words cannot know: `never dull` is praise, `never funny` is not. Each word of negation is as
frequent in praise as in blame, and so is each opinion (but for verbs: negated, `enjoyed` is often `did not enjoy`). The
hundred pairs of negation_pairs.tsv are written by hand in the same words; none of their sentences is generated.
"""

import itertools
import json
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flax_transformer.common.errors import UserError, nearest

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
    both: int
    plain: int
    negated: int
    total: int


def negation_pairs() -> list[Pair]:
    rows = [line.split('\t') for line in PAIRS_FILE.read_text(encoding='utf-8').splitlines()]
    pairs = zip(rows[::2], rows[1::2], strict=True)
    return [Pair(plain, negated, label == POSITIVE) for (label, plain), (_, negated) in pairs]


def score_pairs(
    label_of: Callable[[Sequence[str]], Sequence[str]], *, negative: str = NEGATIVE, positive: str = POSITIVE
) -> PairScores:
    """How many pairs have the right labels by `label_of`, whose names for blame and praise are the others."""
    pairs = negation_pairs()
    given = zip(label_of([pair.plain for pair in pairs]), label_of([pair.negated for pair in pairs]), strict=True)
    right = [
        tuple(label == true for label, true in zip(labels, pair.labels(negative, positive), strict=True))
        for labels, pair in zip(given, pairs, strict=True)
    ]
    return PairScores(sum(map(all, right)), *(sum(side) for side in zip(*right, strict=True)), len(pairs))


SIZES = {'train': 8000, 'validation': 500, 'test': 500}
_SEED = 2017  # fixed, so that every run holds out the same sentences

_WORDS = json.loads(Path(__file__).with_name('opinions.json').read_text('utf-8'))
ONE = _WORDS['one']  # what an opinion is about
SEVERAL = _WORDS['several']
KINDS = _WORDS['kinds']
# Lists of two: blame and praise, as below.
ADJECTIVES = _WORDS['adjectives']
NOUNS = _WORDS['nouns']
THINGS = _WORDS['things']  # neither, until an adjective is put before them
ASIDES = _WORDS['asides']  # words of negation that negate nothing
# Verbs with `i` before them: past, and after `did not`.
FELT = ((('hated', 'hate'), ('regretted', 'regret')), (('liked', 'like'), ('enjoyed', 'enjoy'), ('loved', 'love')))
ADVICE = (('avoid',), ('recommend',))
DOES = ((('drags', 'drag'), ('fails', 'fail')), (('works', 'work'), ('makes sense', 'make sense')))
WORTH = ('a waste of', 'worth')
WHAT = ('your time', 'your money')

PLAIN = ('', '', 'really ', 'very ', 'always ', 'completely ', 'truly ')
NEGATED = ('not ', 'never ', 'hardly ', 'far from ', 'anything but ')


def read_opinions(split: str, *, negated: float = 0.5) -> tuple[list[str], list[str]]:
    """The texts and labels of a split: train, validation or test. No text is in two splits, or twice in one.

    `negated` is that of `opinion`; splits stay disjoint if it differs.
    """
    if split not in SIZES:
        raise UserError(f'opinions:{split}: expected one of {", ".join(SIZES)}.{nearest(split, SIZES)}')
    seen = {text for pair in negation_pairs() for text in (pair.plain, pair.negated)}
    texts, labels = [], []
    for index in itertools.count():
        if len(texts) == SIZES[split]:
            return texts, labels
        text, label = opinion(index, negated=negated)
        own = {0: 'validation', 1: 'test'}.get(zlib.crc32(text.encode()) % 10, 'train')  # a tenth each is held out
        if text not in seen and own == split:
            seen.add(text)
            texts.append(text)
            labels.append(label)


def opinion(index: int, *, negated: float = 0.5) -> tuple[str, str]:
    """A text and its label, a pure function of its number: one or two clauses that agree, perhaps after an aside.

    `negated` is the share of negated clauses. Below a half, an opinion word alone hints at the label.

    >>> opinion(3)
    ('the cast was hardly tasty and hardly gripping', 'neg')
    """
    draw = _Draw(_SEED, index)
    is_praise = draw.chance(0.5)
    clauses = [_clause(draw, is_praise, negated) for _ in range(2 if draw.chance(0.3) else 1)]
    text = draw.one((' and ', ' , ')).join(clauses)
    return f'{draw.one(ASIDES)} {text}' if draw.chance(0.15) else text, POSITIVE if is_praise else NEGATIVE


class _Draw:
    def __init__(self, *seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def chance(self, probability: float) -> bool:
        return self._generator.random() < probability

    def one(self, choices: Sequence) -> Any:
        return choices[self._generator.integers(len(choices))]

    def several(self, choices: Sequence[str], most: int) -> list[str]:
        count = min(int(self._generator.integers(1, most + 1)), len(choices))
        return [choices[i] for i in self._generator.choice(len(choices), count, replace=False)]

    def subject(self) -> tuple[str, str]:
        if self.chance(0.15):
            return self.one(SEVERAL), self.one(('are', 'were'))
        return self.one(ONE), self.one(('is', 'was'))


def _clause(draw: _Draw, is_praise: bool, negated: float) -> str:
    """A clause that praises or blames, perhaps by negating the opposite."""
    is_negated = draw.chance(negated)
    word = int(is_praise != is_negated)  # index into the tables above: 1 is praise
    kind = draw.one([*[_of_adjectives] * 3, _about, *[_of_nouns] * 3, _of_verbs])
    return kind(draw, word, is_negated)


def _of_adjectives(draw: _Draw, word: int, is_negated: bool) -> str:
    subject, be = draw.subject()
    adjectives = draw.several(ADJECTIVES[word], 2 if draw.chance(0.3) else 1)
    form = draw.one(('this is', 'tastes', 'worth', *('is',) * 7))
    if form == 'this is':
        article = 'an' if adjectives[0][0] in 'aeio' else 'a'
        return f'this is {"not " * is_negated}{article} {adjectives[0]} {draw.one(KINDS)}'
    if form == 'tastes' and subject in ONE:
        tastes = "doesn't taste" if is_negated else 'tastes'
        return f'{subject} {tastes} {adjectives[0]}'
    if form == 'worth':
        return f'{subject} {be} {"not " * is_negated}{WORTH[word]} {draw.one(WHAT)}'
    if is_negated and draw.chance(0.2):
        return f"{subject} {be}n't {adjectives[0]}"
    adverb = draw.one(NEGATED if is_negated else PLAIN)
    return f'{subject} {be} ' + ' and '.join(adverb + adjective for adjective in adjectives)


def _about(draw: _Draw, word: int, is_negated: bool) -> str:
    subject, _ = draw.subject()
    adjective = draw.one(ADJECTIVES[word])
    be = draw.one(('is', 'was'))
    if draw.chance(0.5):
        return f'there {be} {"nothing" if is_negated else "something"} {adjective} about {subject}'
    return f'{"nothing" if is_negated else "everything"} about {subject} {be} {adjective}'


def _of_nouns(draw: _Draw, word: int, is_negated: bool) -> str:
    subject, be = draw.subject()
    kind = draw.one(KINDS)
    things = [
        draw.one(NOUNS[word]) if draw.chance(0.4) else f'{draw.one(ADJECTIVES[word])} {draw.one(THINGS)}'
        for _ in range(draw.one((1, 1, 2, 3)))
    ]
    listed = ' and '.join(filter(None, (' , '.join(things[:-1]), things[-1])))
    none = ' and '.join(f'no {thing}' for thing in things[:2])
    was = 'were' if things[0].endswith('s') else 'was'
    has = 'have' if be in ('are', 'were') else draw.one(('has', 'had'))
    if is_negated:
        lacking = f'{draw.one(("", "completely "))}lacking in {listed}'
        forms = (f'a {kind} without {listed}', f'a {kind} with {none}', f'{subject} {has} {none}', lacking)
        return draw.one((*forms, f'{subject} {be} {lacking}', f'there {was} no {things[0]} in {subject}'))
    full = f'{draw.one(("", "completely "))}{draw.one(("full of", "rich in"))} {listed}'
    forms = (f'a {kind} with {listed}', f'a {kind} with {listed}', f'{subject} {has} {listed}', full)
    return draw.one((*forms, f'{subject} {be} {full}', f'there {was} {things[0]} in {subject}'))


def _of_verbs(draw: _Draw, word: int, is_negated: bool) -> str:
    subject, be = draw.subject()
    everything = 'nothing' if is_negated else 'everything'
    form = draw.one(('felt', 'felt', 'advice', 'does', 'does'))
    if form == 'advice':
        would = draw.one(('would not', "wouldn't")) if is_negated else 'would'
        return f'i {would} {draw.one(ADVICE[word])} {subject}'
    if form == 'felt':
        past, base = draw.one(FELT[word])
        did_not = draw.one(('did not', "didn't"))
        whole = f'i {did_not} {base} {subject}' if is_negated else f'i {past} {subject}'
        return draw.one((whole, f'i {past} {everything} about {subject}'))
    does, do = draw.one(DOES[word])
    is_plural = be in ('are', 'were')
    does_not = draw.one(('do not', "don't") if is_plural else ('does not', "doesn't"))
    if is_negated:
        whole = f'{subject} {does_not} {do}'
    else:
        whole = f'{subject} {do if is_plural else does}'
    return draw.one((whole, f'{everything} {does} in {subject}'))
