"""Phrases that translations must contain, from text to ids, and whether they do."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.decoding.problem import NONE
from flax_transformer.tasks.translation.glossary import Glossary, are_phrases
from flax_transformer.text.term_marks import marked, positions_of, unmarked
from flax_transformer.text.tokenizer import Tokenizer

from .lines import Line

# Shapes of arrays of phrases, alternatives and tokens: few, each of which is compiled; the first that has room.
_SHAPES = ((4, 2, 8), (16, 8, 32), (64, 8, 32))
FEW = _SHAPES[0]


class Demand(NamedTuple):
    """A phrase that a translation must contain, and what it translates."""

    alternatives: tuple[str, ...]  # one of them
    span: tuple[int, int] | None = None  # characters of the source; None: the phrase may stand anywhere


Phrase = str | Sequence[str] | Demand  # a sequence: alternatives


class Demands(NamedTuple):
    """What the translations of N parts of lines must contain."""

    wanted: list[list[Demand]]  # of each part, with spans in it
    phrases: np.ndarray  # [N, G, A, P] ids of the alternatives, then NONE
    places: np.ndarray | None  # [N, G, 2] the source positions, from and to, of spans; equal: anywhere; None: no spans

    def of_part(self, part: slice) -> 'Demands':
        return Demands(self.wanted[part], self.phrases[part], None if self.places is None else self.places[part])

    def without_marks(self, rows: Sequence[int], sources: Sequence[Sequence[int]], marks: Sequence[int]) -> 'Demands':
        """Those of some parts, with their places in the sources without marks."""
        places = self.places[rows]
        for i, own in zip(rows, places, strict=True):
            own[:] = [[len(unmarked(sources[i][:at], marks)[0]) for at in place] for place in own]
        return Demands([self.wanted[i] for i in rows], self.phrases[rows], places)

    @property
    def shape(self) -> tuple[int, ...]:
        """Demands of one shape can be joined."""
        return *self.phrases.shape[1:], self.places is None

    @classmethod
    def joined(cls, demands: Sequence['Demands']) -> Self:
        wanted, phrases, places = zip(*demands, strict=True)
        places = None if places[0] is None else np.concatenate(places)
        return cls(list(itertools.chain(*wanted)), np.concatenate(phrases), places)

    def missing(self, number: int, tokens: Sequence[int]) -> tuple[str, ...]:
        """The first alternative of each phrase of a part that its translation has too few times."""
        phrases = [demand.alternatives for demand in self.wanted[number]]
        lacking = []
        for position, (phrase, alternatives) in enumerate(zip(phrases, self.phrases[number], strict=False)):
            times = _count(tokens, [row[row != NONE].tolist() for row in alternatives])
            if times <= phrases[:position].count(phrase):
                lacking.append(phrase[0])
        return tuple(lacking)


def demands_of_line(
    text: str, number: int, required: Sequence[Phrase] | None, glossary: Glossary | None
) -> list[Demand]:
    """What line `number` requires of its own, and its terms outside of these phrases' spans, by place.

    Raises UserError.
    """
    demands = _checked(required or (), number)
    spans = [demand.span for demand in demands if demand.span]
    for term in glossary.find(text) if glossary else ():
        if all(term.end <= begin or end <= term.start for begin, end in spans):
            demands.append(Demand(term.targets, (term.start, term.end)))
    return sorted(demands, key=lambda demand: demand.span or (-1, -1))


def demands_of_parts(
    split: Sequence[Line], lines: Sequence[Sequence[Demand]], sources: Sequence[Sequence[int]], tokenizer: Tokenizer
) -> Demands | None:
    """What the parts of lines require; None: nothing. `sources` are the ids of the parts."""
    wanted = []
    for line, demands in zip(split, lines, strict=True):
        end = 0
        for part in line.parts:
            start = line.text.index(part, end)
            end = start + len(part)
            wanted.append([moved for demand in demands if (moved := _within(demand, start, end))])
    if not any(wanted):
        return None
    phrases = spelled(tokenizer, [[demand.alternatives for demand in demands] for demands in wanted])
    places = None
    if any(demand.span for demands in wanted for demand in demands):
        places = np.zeros((*phrases.shape[:2], 2), np.int32)
        parts = [part for line in split for part in line.parts]
        for row, demands, part, ids in zip(places, wanted, parts, sources, strict=True):
            for place, demand in zip(row, demands, strict=False):
                if demand.span:
                    place[:] = positions_of(demand.span, part, ids, tokenizer)
    return Demands(wanted, phrases, places)


def with_marks(sources: list[list[int]], demands: Demands | None, tokenizer: Tokenizer, most: int) -> list[list[int]]:
    """The sources with translations of terms, where they fit and the model reads them; moves the places, too.

    A term with several forms is not marked, since the model would keep to the one in the source.
    """
    if not tokenizer.marks or demands is None or demands.places is None:
        return sources
    lines = []
    rows = zip(sources, demands.wanted, demands.phrases[:, :, 0], demands.places, strict=True)
    for ids, wanted, phrases, places in rows:
        is_term = places[:, 0] < places[:, 1]
        terms = itertools.compress(zip(wanted, phrases, strict=False), is_term)
        translations = [[] if _has_forms(demand) else phrase[phrase != NONE].tolist() for demand, phrase in terms]
        line, moved = marked(ids, places[is_term].tolist(), translations, tokenizer.marks)
        if moved and len(line) <= most:
            places[is_term] = moved
            ids = line
        lines.append(ids)
    return lines


def _has_forms(demand: Demand) -> bool:
    """Whether the alternatives differ in more than the first letter's case, as at the beginning of a sentence."""
    return len({text[:1].lower() + text[1:] for text in demand.alternatives}) > 1


def _within(demand: Demand, start: int, end: int) -> Demand | None:
    """The demand on a part of a line; None: not on this part."""
    if demand.span is None:
        return demand
    first, last = demand.span
    return demand._replace(span=(first - start, last - start)) if start <= first and last <= end else None


def spelled(tokenizer: Tokenizer, wanted: Sequence[Sequence[tuple[str, ...]]]) -> np.ndarray:
    """[N, G, A, P] ids of phrases and their alternatives, then NONE."""
    texts = sorted({text for phrases in wanted for phrase in phrases for text in phrase})
    ids = {text: line[:-1] for text, line in zip(texts, tokenizer.encode_target(texts), strict=True)}
    groups = max(map(len, wanted))
    alternatives = max(len(phrase) for phrases in wanted for phrase in phrases)
    longest = max(map(len, ids.values()))
    shape = _shape_for((groups, alternatives, longest))
    out = np.full((len(wanted), *shape), NONE, np.int32)
    for row, phrases in zip(out, wanted, strict=True):
        for group, phrase in zip(row, phrases, strict=False):
            for slots, text in zip(group, phrase, strict=False):
                slots[: len(ids[text])] = ids[text]
    return out


def _shape_for(sizes: tuple[int, ...]) -> tuple[int, ...]:
    for shape in _SHAPES:
        if all(size <= most for size, most in zip(sizes, shape, strict=True)):
            return shape
    return tuple(-(-size // most) * most for size, most in zip(sizes, _SHAPES[-1], strict=True))


def _count(tokens: Sequence[int], alternatives: Sequence[Sequence[int]]) -> int:
    """How often the alternatives occur, none within another."""
    times = 0
    begin = 0
    for end in range(1, len(tokens) + 1):
        if any(ids and list(tokens[max(end - len(ids), begin) : end]) == ids for ids in alternatives):
            times += 1
            begin = end
    return times


def _checked(phrases: Sequence[Phrase], number: int) -> list[Demand]:
    plain = phrases
    if isinstance(phrases, (list, tuple)):
        plain = [phrase for phrase in phrases if not isinstance(phrase, Demand)]
    if not are_phrases(plain):
        raise UserError(f'required[{number}]={phrases!r}: expected a list of phrases, each a text or alternatives')
    demands = []
    for phrase in phrases:
        if not isinstance(phrase, Demand):
            phrase = Demand((phrase,) if isinstance(phrase, str) else tuple(phrase))
        demands.append(phrase)
    return demands
