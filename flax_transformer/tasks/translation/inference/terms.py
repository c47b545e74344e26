"""Phrases that translations must contain, from text to ids, and whether they do."""

from collections.abc import Sequence

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.decoding.problem import NONE
from flax_transformer.tasks.translation.glossary import Glossary
from flax_transformer.tasks.translation.inference.lines import Line
from flax_transformer.text.tokenizer import Tokenizer

Phrase = str | Sequence[str]  # or alternatives
_SHORTEST = 4  # tokens: fewer shapes to compile


def require_beam(decoding: DecodingConfig) -> None:
    """Raises UserError unless the search can be made to contain phrases."""
    if decoding.search != 'beam' or decoding.beam_width < 2:
        got = f'search={decoding.search!r}, beam_width={decoding.beam_width}'
        raise UserError(f'required phrases and glossaries: got {got}; expected a beam of at least 2')


def wanted_of(
    split: Sequence[Line], required: Sequence[Sequence[Phrase] | None] | None, glossary: Glossary | None
) -> list[list[tuple[str, ...]]]:
    """The alternatives of each phrase that each part of the lines requires, of its own or by the glossary.

    Raises UserError for what is no list of phrases.
    """
    found = []
    for number, line in enumerate(split):
        own = _checked(None if required is None else required[number], number)
        for part in line.parts:
            found.append([*own, *(match.targets for match in (glossary.find(part) if glossary else ()))])
    return found


def spelled(tokenizer: Tokenizer, wanted: Sequence[Sequence[tuple[str, ...]]]) -> np.ndarray:
    """[N, G, A, P] ids of phrases and their alternatives, then NONE; sizes are powers of two, to compile less."""
    texts = sorted({text for phrases in wanted for phrase in phrases for text in phrase})
    ids = {text: line[:-1] for text, line in zip(texts, tokenizer.encode_target(texts), strict=True)}
    counts = [(len(phrases), *map(len, phrases)) for phrases in wanted]
    groups, alternatives = (max(row[0] for row in counts), max(n for row in counts for n in row[1:]))
    longest = max(len(line) for line in ids.values())
    shape = (_power_of_two(groups), _power_of_two(alternatives), max(_power_of_two(longest), _SHORTEST))
    out = np.full((len(wanted), *shape), NONE, np.int32)
    for row, phrases in zip(out, wanted, strict=True):
        for group, phrase in zip(row, phrases, strict=False):
            for slots, text in zip(group, phrase, strict=False):
                slots[: len(ids[text])] = ids[text]
    return out


def missing_in(tokens: Sequence[int], wanted: Sequence[tuple[str, ...]], phrases: np.ndarray) -> tuple[str, ...]:
    """The first alternative of each phrase that does not occur often enough; `phrases` [G, A, P] are their ids."""
    lacking = []
    for number, phrase in enumerate(wanted):
        times = sum(_count(tokens, row[row != NONE].tolist()) for row in phrases[number])
        if times <= list(wanted[:number]).count(phrase):
            lacking.append(phrase[0])
    return tuple(lacking)


def _count(tokens: Sequence[int], ids: Sequence[int]) -> int:
    size = len(ids)
    return sum(list(tokens[i : i + size]) == ids for i in range(len(tokens) - size + 1)) if size else 0


def _checked(phrases: Sequence[Phrase] | None, number: int) -> list[tuple[str, ...]]:
    is_text = lambda each: isinstance(each, str) and bool(each.strip())
    is_phrase = lambda each: is_text(each) or (isinstance(each, (list, tuple)) and each and all(map(is_text, each)))
    if isinstance(phrases, str) or not all(map(is_phrase, phrases or ())):
        raise UserError(f'required[{number}]={phrases!r}: expected a list of phrases, each a text or alternatives')
    return [(phrase,) if isinstance(phrase, str) else tuple(phrase) for phrase in phrases or ()]


def _power_of_two(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()
