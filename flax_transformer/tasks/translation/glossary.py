"""Terms that are to be translated in a given way: found in the source, and required in the translation."""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from flax_transformer.common.errors import UserError
from flax_transformer.data.lines import read_lines
from flax_transformer.text.tokenizer import UNSPACED

# A character of a script without spaces; a word, perhaps with an apostrophe or a hyphen in it; a sign.
_WORD = re.compile(rf"{UNSPACED}|(?:(?!{UNSPACED})[^\W_])+(?:['’-](?:(?!{UNSPACED})[^\W_])+)*|\S")


def are_phrases(value: Any) -> bool:
    """Whether a value is a list of phrases, each a text or a list of alternatives, none of them blank."""

    def is_phrase(value: Any) -> bool:
        texts = [value] if isinstance(value, str) else value
        is_list = isinstance(texts, (list, tuple)) and len(texts) > 0
        return is_list and all(isinstance(text, str) and text.strip() for text in texts)

    return isinstance(value, (list, tuple)) and all(map(is_phrase, value))


class Match(NamedTuple):
    """A term in a line."""

    source: str  # the words of the line
    start: int  # its first character in the line
    end: int  # after its last
    targets: tuple[str, ...]  # the translation contains one of these


class Glossary:
    """Translations of terms, by term.

    A term matches whole words, the longest term first, from left to right. In lower case it matches in any case, and
    if it begins with a capital in the line, its translations may, too; else it matches as it is written.
    """

    def __init__(self, terms: Mapping[str, Sequence[str]]) -> None:
        """`terms` gives one or more translations for each term, such as the forms of a word."""
        self.terms = {term: tuple(dict.fromkeys(targets)) for term, targets in terms.items()}
        self._terms: dict[tuple[str, ...], tuple[str, ...]] = {}
        for term, targets in self.terms.items():
            words = tuple(_WORD.findall(term))
            if not words or not targets or not all(map(str.strip, targets)):
                raise UserError(f'glossary: the term {term!r} has the translations {list(targets)}; expected words')
            self._terms[words] = targets
        self._longest = max(map(len, self._terms), default=0)  # words

    @classmethod
    def from_file(cls, path: Path | str) -> Self:
        """The glossary in a file: on each line a term, a tab and its translation; `a|b` are two translations.

        Raises UserError, with the line, for one without two columns, and for a term with two different lines.
        """
        return cls._from_rows((line.split('\t') for line in read_lines(path)), f'{path}')

    @classmethod
    def from_text(cls, text: str, place: str, form: Literal['tsv', 'csv']) -> Self:
        """The glossary in such lines, or in CSV, where columns with the languages may follow, as in DeepL's."""
        lines = text.removeprefix('\ufeff').splitlines()
        if form == 'tsv':
            return cls._from_rows((line.split('\t') for line in lines), place)
        try:
            return cls._from_rows((row[:2] for row in csv.reader(lines)), place, 'a comma')
        except csv.Error as error:
            raise UserError(f'{place}: {error}; expected CSV') from None

    @classmethod
    def _from_rows(cls, rows: Iterable[Sequence[str]], place: str, sign: str = 'a tab') -> Self:
        terms: dict[str, list[str]] = {}
        lines: dict[str, int] = {}
        for number, row in enumerate(rows, start=1):
            columns = list(map(str.strip, row))
            if not any(columns):
                continue
            where = f'{place}, line {number}'
            if len(columns) != 2 or not all(columns):
                got = 'an empty column' if '' in columns else f'{len(columns)} column{"s" * (len(columns) != 1)}'
                raise UserError(f'{where}: got {got}; expected a term, {sign} and its translation')
            term = columns[0]
            targets = [target.strip() for target in columns[1].split('|')]
            if terms.get(term, targets) != targets:
                both = '|'.join([*terms[term], *targets])
                got = f'{term!r} has another translation in line {lines[term]}'
                raise UserError(f'{where}: {got}; expected one line: {both} allows each of these')
            terms[term] = targets
            lines[term] = number
        if not terms:
            raise UserError(f'{place} has no terms; expected a term, {sign} and its translation on each line')
        return cls(terms)

    @property
    def tsv(self) -> str:
        """The glossary as `from_file` reads it."""
        return '\n'.join(f'{term}\t{"|".join(targets)}' for term, targets in self.terms.items())

    def find(self, text: str) -> list[Match]:
        """The terms of a text, in their order."""
        matches = []
        words = list(_WORD.finditer(text))
        begin = 0
        while begin < len(words):
            for end in range(min(begin + self._longest, len(words)), begin, -1):
                here = tuple(word[0] for word in words[begin:end])
                targets = self._terms.get(here) or self._in_lower_case(here)
                if targets:
                    first, last = words[begin].start(), words[end - 1].end()
                    matches.append(Match(text[first:last], first, last, targets))
                    begin = end - 1
                    break
            begin += 1
        return matches

    def _in_lower_case(self, words: tuple[str, ...]) -> tuple[str, ...]:
        targets = self._terms.get(tuple(map(str.lower, words)), ())
        if words[0][:1].isupper():
            targets = tuple(dict.fromkeys([*targets, *(target[:1].upper() + target[1:] for target in targets)]))
        return targets
