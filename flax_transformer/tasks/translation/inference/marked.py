"""Texts with spans: tags, and literals (addresses, placeholders of programs, numbers, what a caller names)."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
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
