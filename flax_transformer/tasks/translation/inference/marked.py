"""Texts with spans: tags, and literals (addresses, placeholders of programs, numbers, what a caller names)."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, Literal, NamedTuple


class Span(NamedTuple):
    """What is not translated: a literal in place of characters of the text, or a tag between them."""

    start: int
    end: int  # a tag ends where it starts
    kind: Literal['literal', 'open', 'close', 'void']
    raw: str  # what is written out
    name: str = ''  # an opening tag belongs to the next closing tag of its name; a literal is a number, name or sign
    parts: tuple['str | Marked', ...] = ()  # what `raw` consists of, if some of it is translated, too


class Marked(NamedTuple):
    """A text without its tags, and the spans, in order."""

    text: str
    spans: tuple[Span, ...] = ()
    escape: Callable[[str], str] = str  # how translated text is written out
    raw: str = ''  # how the text is written in its file, with its tags; '' for `text` itself
    family: str = ''  # of its placeholders, if it is a message of a program


def edited(text: str, edits: Iterable[tuple[int, int, str]], escape: Callable[[str], str] = str) -> str:
    """The text, escaped, but for other text from `start` to `end` of each edit."""
    pieces = []
    at = 0
    for start, end, new in sorted(edits, key=itemgetter(0)):
        pieces += [escape(text[at:start]), new]
        at = end
    return ''.join([*pieces, escape(text[at:])])


def aside(text: str, escape: Callable[[str], str]) -> Marked:
    """A text from within a sentence, as models of sentences have seen such: between commas."""
    return Marked(f', {text},', escape=escape)


def without_commas(line: Marked, translation: str) -> str:
    """The translation of a line, without the commas of `aside`."""
    if not (line.text.startswith(', ') and line.text.endswith(',')):
        return translation
    return re.sub(r'^[\s,–-]+|[\s,]+$', '', translation)


def outside_of_spans(line: Marked) -> str:
    return edited(line.text, [(span.start, span.end, ' ') for span in line.spans])


def ends_of(tags: Sequence[Any]) -> dict[int, int]:
    """After which tag (Span or Token) an element ends, by the number of its opening tag; elements do not cross."""
    ends: dict[int, int] = {}
    stack: list[int] = []
    waiting: Counter[str] = Counter()  # names on the stack
    for number, tag in enumerate(tags):
        if tag.kind == 'open':
            stack.append(number)
            waiting[tag.name] += 1
        elif tag.kind == 'close' and waiting[tag.name]:
            is_own = False
            while not is_own:
                opening = stack.pop()
                waiting[tags[opening].name] -= 1
                is_own = tags[opening].name == tag.name
            ends[opening] = number + 1
    return ends


def apart(taken: Sequence[tuple[int, int]], ranges: Iterable[Any]) -> Iterator[Any]:
    """Yields the ranges (start, end, ...) that overlap none of those that are taken, which are in order."""
    ends = [end for _, end in taken]
    for found in ranges:
        after = bisect_right(ends, found[0])
        if after == len(taken) or found[1] <= taken[after][0]:
            yield found


def pairs_apart(taken: Sequence[tuple[int, int]], pairs: Sequence[Sequence[Span]]) -> Iterator[Span]:
    """Yields the spans of those pairs that overlap none of the ranges that are taken, which are in order."""
    free = set(apart(taken, chain.from_iterable(pairs)))
    return chain.from_iterable(pair for pair in pairs if free.issuperset(pair))


def is_within(spans: Sequence[Span], place: int) -> bool:
    """Whether a place is in one of the spans, which are in order."""
    number = bisect_right(spans, place, key=attrgetter('start')) - 1
    return number >= 0 and place < spans[number].end


def literal(line: Marked, start: int, end: int, kind: str) -> Span:
    """What stands at a place of the line, as a literal that is written as it is."""
    return Span(start, end, 'literal', line.escape(line.text[start:end]), kind)


def with_spans(line: Marked, literals: Sequence[Span]) -> Marked:
    return line._replace(spans=tuple(sorted([*line.spans, *literals], key=itemgetter(0, 1))))
