"""Phrases that translations must contain, from text to ids, and whether they do."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.decoding.problem import NONE
from flax_transformer.tasks.translation.glossary import Glossary, are_phrases
from flax_transformer.text.tokenizer import Tokenizer

from .lines import Line

Phrase = str | Sequence[str]  # or alternatives
_SHORTEST = 4  # tokens: fewer shapes to compile


class Demands(NamedTuple):
    """What the translations of N parts of lines must contain."""

    wanted: list[list[tuple[str, ...]]]  # the alternatives of each phrase of each part
    phrases: np.ndarray  # [N, G, A, P] their ids, then NONE

    def missing(self, number: int, tokens: Sequence[int]) -> tuple[str, ...]:
        """The first alternative of each phrase of a part that its translation has too few times."""
        wanted = self.wanted[number]
        lacking = []
        for position, (phrase, alternatives) in enumerate(zip(wanted, self.phrases[number], strict=False)):
            times = sum(_count(tokens, row[row != NONE].tolist()) for row in alternatives)
            if times <= wanted[:position].count(phrase):
                lacking.append(phrase[0])
        return tuple(lacking)


def demands_of(
    split: Sequence[Line],
    required: Sequence[Sequence[Phrase] | None] | None,
    glossary: Glossary | None,
    tokenizer: Tokenizer,
) -> Demands | None:
    """What each part of the lines requires, of its own or by the glossary; None: nothing. Raises UserError."""
    wanted: list[list[tuple[str, ...]]] = []
    for number, line in enumerate(split):
        own = [] if required is None or required[number] is None else _checked(required[number], number)
        for part in line.parts:
            terms = glossary.find(part) if glossary else ()
            wanted.append([*own, *(term.targets for term in terms)])
    return Demands(wanted, spelled(tokenizer, wanted)) if any(wanted) else None


def spelled(tokenizer: Tokenizer, wanted: Sequence[Sequence[tuple[str, ...]]]) -> np.ndarray:
    """[N, G, A, P] ids of phrases and their alternatives, then NONE; sizes are powers of two, to compile less."""
    texts = sorted({text for phrases in wanted for phrase in phrases for text in phrase})
    ids = {text: line[:-1] for text, line in zip(texts, tokenizer.encode_target(texts), strict=True)}
    groups = max(map(len, wanted))
    alternatives = max(len(phrase) for phrases in wanted for phrase in phrases)
    longest = max(map(len, ids.values()))
    shape = (_power_of_two(groups), _power_of_two(alternatives), max(_power_of_two(longest), _SHORTEST))
    out = np.full((len(wanted), *shape), NONE, np.int32)
    for row, phrases in zip(out, wanted, strict=True):
        for group, phrase in zip(row, phrases, strict=False):
            for slots, text in zip(group, phrase, strict=False):
                slots[: len(ids[text])] = ids[text]
    return out


def _count(tokens: Sequence[int], ids: Sequence[int]) -> int:
    size = len(ids)
    return sum(list(tokens[i : i + size]) == ids for i in range(len(tokens) - size + 1)) if size else 0


def _checked(phrases: Sequence[Phrase], number: int) -> list[tuple[str, ...]]:
    if not are_phrases(phrases):
        raise UserError(f'required[{number}]={phrases!r}: expected a list of phrases, each a text or alternatives')
    return [(phrase,) if isinstance(phrase, str) else tuple(phrase) for phrase in phrases]


def _power_of_two(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()
