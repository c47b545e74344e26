"""Terms that are to be translated in a given way: found in the source, and required in the translation."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from flax_transformer.common.errors import UserError
from flax_transformer.data.lines import read_lines
from flax_transformer.text.tokenizer import UNSPACED

# A character of a script without spaces; a word, perhaps with an apostrophe or a hyphen in it; a sign.
_WORD = re.compile(rf"{UNSPACED}|(?:(?!{UNSPACED})[^\W_])+(?:['’-](?:(?!{UNSPACED})[^\W_])+)*|\S")


def are_phrases(value: Any) -> bool:
    """Whether a value is a list of phrases, each a text or a list of alternatives, none of them blank."""
    is_text = lambda each: isinstance(each, str) and bool(each.strip())
    is_phrase = lambda each: is_text(each) or (isinstance(each, (list, tuple)) and each and all(map(is_text, each)))
    return isinstance(value, (list, tuple)) and all(map(is_phrase, value))


class Match(NamedTuple):
    """A term in a line."""

    source: str  # as it stands in the line
    targets: tuple[str, ...]  # the translation contains one of these


class Glossary:
    """Translations of terms, by term.

    A term matches whole words, the longest term first, from left to right, and none within another. Written in lower
    case it matches in any case, else as it is written. Where a term in lower case begins with a capital in the line,
    its translations may begin with one too.
    """

    def __init__(self, terms: Mapping[str, Sequence[str]]) -> None:
        """`terms` gives one or more translations for each term, such as the forms of a word."""
        self._terms: dict[tuple[str, ...], tuple[str, ...]] = {}
        for term, targets in terms.items():
            words = tuple(_WORD.findall(term))
            if not words or not targets or not all(map(str.strip, targets)):
                raise UserError(f'glossary: the term {term!r} has the translations {list(targets)}; expected words')
            self._terms[words] = tuple(dict.fromkeys(targets))
        self._longest = max(map(len, self._terms), default=0)  # words

    @classmethod
    def from_file(cls, path: Path | str) -> Self:
        """Of a file with a term, a tab and its translation on each line; `a|b` are two translations of one term.

        Raises UserError, with the line, for one without two columns, and for a term with two different lines.
        """
        terms: dict[str, list[str]] = {}
        lines: dict[str, int] = {}
        for number, line in enumerate(read_lines(path), start=1):
            if not line.strip():
                continue
            columns = [column.strip() for column in line.split('\t')]
            if len(columns) != 2 or not all(columns):
                got = f'{len(columns)} column{"s" * (len(columns) != 1)}' if all(columns) else 'an empty column'
                raise UserError(f'{path}, line {number}: got {got}; expected a term, a tab and its translation')
            term, targets = columns[0], [target.strip() for target in columns[1].split('|')]
            if terms.get(term, targets) != targets:
                raise UserError(
                    f'{path}, line {number}: {term!r} has another translation in line {lines[term]}; expected one line '
                    f'for a term: {"|".join([*terms[term], *targets])} allows each of these'
                )
            terms[term], lines[term] = targets, number
        if not terms:
            raise UserError(f'{path} has no terms; expected a term, a tab and its translation on each line')
        return cls(terms)

    def find(self, text: str) -> list[Match]:
        """The terms of a text, in their order."""
        found, words, begin = [], list(_WORD.finditer(text)), 0
        while begin < len(words):
            for end in range(min(begin + self._longest, len(words)), begin, -1):
                here = tuple(word[0] for word in words[begin:end])
                if targets := self._terms.get(here) or self._in_lower_case(here):
                    found.append(Match(text[words[begin].start() : words[end - 1].end()], targets))
                    begin = end - 1
                    break
            begin += 1
        return found

    def _in_lower_case(self, words: tuple[str, ...]) -> tuple[str, ...]:
        targets = self._terms.get(tuple(map(str.lower, words)), ())
        if words[0][:1].isupper():
            targets = tuple(dict.fromkeys([*targets, *(target[:1].upper() + target[1:] for target in targets)]))
        return targets
