"""Lines in capitals, headlines and German in small letters as sentences; capitals come back as capitals."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from flax_transformer.tasks.translation.glossary import Glossary
from flax_transformer.tasks.translation.words import Lexicon, has_capital_nouns
from flax_transformer.text.casing import (
    in_sentence_case,
    places_of_sharp_s,
    sentence_of_german_title,
    sentence_of_title,
)
from flax_transformer.text.languages import two_letters
from flax_transformer.text.tokenizer import Tokenizer

from .marked import Marked, apart, edited, literal, outside_of_spans, with_spans
from .persons import with_surnames

# Yields the start, end and kind of names in a text; those that come first win.
Finder = Callable[[str], Iterable[list[tuple[int, int, str]]]]
_WORD = re.compile(r'[^\W\d_]{2,}')
_ENDS = ('.', '!', '?', '…')
_GREETING = re.compile(r'(?:hallo|hi|hey|liebe[rs]?|guten|sehr geehrte[rs]?)\b')
_MOSTLY = 0.7
_NEAR = 60  # characters


class SentenceCase:
    """Writes lines of one language so, for one tokenizer."""

    def __init__(self, tokenizer: Tokenizer, language: str, lexicon: Lexicon | None, find_names: Finder) -> None:
        """Takes the words of the training text, if that is known, and what finds names in a sentence."""
        self._tokenizer = tokenizer
        self._forms = lexicon.forms if lexicon and lexicon.has_capitals else None
        self._lexicon = lexicon
        self._find_names = find_names
        self._is_english = two_letters(language) == 'en'
        self._has_capital_nouns = has_capital_nouns(language)
        self._is_german = two_letters(language) == 'de'

    def __call__(self, line: Marked, kept: Sequence[tuple[int, int]], glossary: Glossary | None) -> Marked:
        """A line that is written otherwise as a sentence; capitals stay capitals.

        The terms of the glossary that are kept stay what they are, unless they are found in the sentence, too.
        """
        outside = outside_of_spans(line)
        if _in_capitals(outside):
            return self._of_capitals(line, kept, glossary)
        if self._has_capital_nouns and self._forms and self._in_small_letters(outside):
            # What has no end may begin anywhere.
            begins = line.text.rstrip().endswith(_ENDS) or _GREETING.match(line.text) is not None
            sentence = self._sentence(line.text, [*kept, *_with_letters(line)], glossary, begins=begins)
            return self._with_names(line._replace(text=sentence), kept, glossary)
        return line._replace(text=self._without_title(line.text, _taken(line, kept)))

    def _without_title(self, text: str, kept: Sequence[tuple[int, int]]) -> str:
        if self._is_english:
            return sentence_of_title(text, kept, self._tokenizer, self._forms)
        if self._is_german and self._forms:
            return sentence_of_german_title(text, kept, self._forms)
        return text

    def _of_capitals(self, line: Marked, kept: Sequence[tuple[int, int]], glossary: Glossary | None) -> Marked:
        if self._is_german:
            line, kept = self._with_sharp_s(line, kept)
        sentence = with_surnames(self._sentence(line.text, kept, glossary))
        escape = line.escape
        line = line._replace(text=sentence, escape=lambda text: escape(text.upper()))
        return self._with_names(line, kept, glossary)

    def _with_names(self, line: Marked, kept: Sequence[tuple[int, int]], glossary: Glossary | None) -> Marked:
        """The line with literals for the names in it, but for terms, which its letters had hidden."""
        terms = [(term.start, term.end) for term in glossary.find(line.text)] if glossary else []
        for ranges in self._find_names(line.text):
            names = apart(_taken(line, {*kept, *terms}), ranges)
            line = with_spans(line, [literal(line, *name) for name in names])
        return line

    def _sentence(
        self, text: str, kept: Sequence[tuple[int, int]], glossary: Glossary | None, *, begins: bool = True
    ) -> str:
        sentence = in_sentence_case(text, self._tokenizer, self._forms, begins=begins)
        found = {(term.start, term.end) for term in glossary.find(sentence)} if glossary else set()
        for start, end in kept:
            if (start, end) not in found:
                sentence = sentence[:start] + text[start:end] + sentence[end:]
        return sentence

    def _knows(self, word: str) -> bool:
        return self._lexicon is not None and self._lexicon.has_word(word)

    def _in_small_letters(self, text: str) -> bool:
        """Whether a text has no capital, and mostly words of the training text."""
        words = _WORD.findall(text) if text.islower() else ()
        return len(words) > 1 and sum(map(self._knows, words)) >= _MOSTLY * len(words)

    def _with_sharp_s(self, line: Marked, kept: Sequence[tuple[int, int]]) -> tuple[Marked, list[tuple[int, int]]]:
        """A line in capitals with ß where it has SS for that, outside of spans and of what is kept; where that is."""
        pairs = [(place, place + 2) for place in places_of_sharp_s(line.text, self._tokenizer, self._knows)]
        places = [start for start, _ in apart(_taken(line, kept), pairs)]

        def moved(at: int) -> int:
            return at - bisect_right(places, at - 1)

        text = edited(line.text, [(place, place + 2, 'ß') for place in places])
        spans = tuple(span._replace(start=moved(span.start), end=moved(span.end)) for span in line.spans)
        return line._replace(text=text, spans=spans), [(moved(start), moved(end)) for start, end in kept]


def _taken(line: Marked, kept: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Where the spans are and what is kept, in order."""
    return sorted([*kept, *((span.start, span.end) for span in line.spans)])


def _with_letters(line: Marked) -> list[tuple[int, int]]:
    """Where the spans are, with the letters that touch them."""
    found = []
    for span in line.spans:
        if span.start < span.end:
            before = re.search(r'\w*$', line.text[max(span.start - _NEAR, 0) : span.start])
            after = re.match(r'\w*', line.text[span.end : span.end + _NEAR])
            found.append((span.start - len(before[0]), span.end + len(after[0])))
    return found


def _in_capitals(text: str) -> bool:
    words = _WORD.findall(text)
    return text.replace('ß', '').isupper() and (len(words) > 1 or max(map(len, words), default=0) > 6)
