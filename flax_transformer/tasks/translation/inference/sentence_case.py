"""Lines in capitals, and English headlines, as the sentences that they are; capitals come back as capitals."""

import re
from bisect import bisect_right
from collections.abc import Sequence

from flax_transformer.tasks.translation.glossary import Glossary
from flax_transformer.text.casing import places_of_sharp_s, sentence_of_capitals, sentence_of_title
from flax_transformer.text.languages import two_letters
from flax_transformer.text.tokenizer import Tokenizer

from .marked import Marked, apart, edited, outside_of_spans


class SentenceCase:
    """Writes lines of one language so, for one tokenizer."""

    def __init__(self, tokenizer: Tokenizer, language: str) -> None:
        self._tokenizer = tokenizer
        self._has_headlines = two_letters(language) == 'en'  # in Title Case
        self._is_german = two_letters(language) == 'de'

    def __call__(self, line: Marked, kept: Sequence[tuple[int, int]], glossary: Glossary | None) -> Marked:
        """A line in capitals, or an English headline, as the sentence that it is; capitals stay capitals.

        The terms of the glossary that are kept stay what they are, in capitals unless they are found in small letters.
        """
        escape = line.escape
        if _in_capitals(line):
            if self._is_german:
                line, kept = _with_sharp_s(line, kept, self._tokenizer)
            sentence = sentence_of_capitals(line.text, self._tokenizer)
            found = {(term.start, term.end) for term in glossary.find(sentence)} if glossary else set()
            for start, end in kept:
                if (start, end) not in found:
                    sentence = sentence[:start] + line.text[start:end] + sentence[end:]
            return line._replace(text=sentence, escape=lambda text: escape(text.upper()))
        if not self._has_headlines:
            return line
        kept = [*kept, *((span.start, span.end) for span in line.spans)]
        return line._replace(text=sentence_of_title(line.text, kept, self._tokenizer))


def _with_sharp_s(
    line: Marked, kept: Sequence[tuple[int, int]], tokenizer: Tokenizer
) -> tuple[Marked, list[tuple[int, int]]]:
    """A line in capitals with ß where it has SS for that, outside of spans and of what is kept; and where that is."""
    taken = sorted([*((span.start, span.end) for span in line.spans), *kept])
    pairs = [(place, place + 2) for place in places_of_sharp_s(line.text, tokenizer)]
    places = [start for start, _ in apart(taken, pairs)]

    def moved(at: int) -> int:
        return at - bisect_right(places, at - 1)

    text = edited(line.text, [(place, place + 2, 'ß') for place in places])
    spans = tuple(span._replace(start=moved(span.start), end=moved(span.end)) for span in line.spans)
    return line._replace(text=text, spans=spans), [(moved(start), moved(end)) for start, end in kept]


def _in_capitals(line: Marked) -> bool:
    outside = outside_of_spans(line)
    words = re.findall(r'[^\W\d_]{2,}', outside)
    return outside.replace('ß', '').isupper() and (len(words) > 1 or max(map(len, words), default=0) > 6)
