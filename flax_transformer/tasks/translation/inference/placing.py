"""Where the tags of a text go in its translation, by the words that are aligned."""

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np

from .marked import Span, ends_of

# A word; its group is without the signs around it, unless it has no others.
_WORD = re.compile(r'(?:[^\w\s]*(?=\w))?(\w(?:\S*\w)?|\S+)\S*')
_ENDING = 4  # letters of a word are fewer
_DEEPEST = 100  # elements within each other; a tag further in is placed on its own


def tags_in_place(
    tags: Sequence[Span], source: str, text: str, links: Mapping[int, int]
) -> Iterator[tuple[int, int, str]]:
    """Yields (start, end, tag), in order, for the tags of a source; `links`: its word of each of the text's."""
    words = list(_WORD.finditer(text))
    root = _tree(tags, source)
    _assign(root, (0, len(words)), [links.get(i) for i in range(len(words))])
    yield from _written(root, 0, len(text), text, words)


@dataclass(eq=False)
class _Element:
    """A tag, or a pair of tags and what is between them."""

    before: str
    after: str
    words: range  # source words inside; if empty, it stands before word `start`
    neighbors: tuple[str, str] = ('', '')  # the characters right before it and after it; '' at an end
    signs: tuple[bool, bool] = (True, True)  # whether it begins and ends with signs, not letters
    follows_stop: bool = False  # whether a sign of the end of a sentence is before its end
    part: tuple[str, int, int] | None = None  # the only word inside, and where in it the element begins and ends
    start: int = 0  # its place in the source

    children: list['_Element'] = field(default_factory=list)
    target: tuple[int, int] = (0, 0)  # the target's words that it gets


def _is_sign(character: str) -> bool:
    return re.match(r'\w', character) is None


def _tree(spans: Sequence[Span], text: str) -> _Element:
    """The tags as elements within each other; one without its other half is an element of its own."""
    words = list(_WORD.finditer(text))
    ends = ends_of(spans)
    firsts, lasts = [word.start(1) for word in words], [word.end(1) for word in words]
    stack = [(_Element('', '', range(len(words))), -1)]  # elements, and the numbers of their closing tags
    for number, span in enumerate(spans):
        if number == stack[-1][1]:
            stack.pop()
            continue
        is_pair = number in ends and len(stack) <= _DEEPEST
        closing = spans[ends[number] - 1] if is_pair else span
        begin = bisect_left(lasts, span.start + 1)
        stop = max(bisect_left(firsts, closing.start), begin) if is_pair else begin
        before, after = text[: span.start], text[closing.start :]
        start = firsts[begin] if begin < stop else 0
        part = None
        if stop == begin + 1 and (span.start > start or closing.start < lasts[begin]):
            part = (words[begin][1], max(span.start - start, 0), min(closing.start, lasts[begin]) - start)
        is_last = span.name == 'sign' and not after.strip()  # an emoji after a sentence stays there
        element = _Element(
            span.raw,
            closing.raw if is_pair else '',
            range(begin, stop),
            neighbors=(before[-1:], after[:1]),
            signs=(_is_sign(text[span.start :].lstrip()[:1]), _is_sign(text[: closing.start].rstrip()[-1:]) or is_last),
            follows_stop=is_last or text[: closing.start].rstrip().endswith(('.', '!', '?', '…', ':')),
            part=part,
            start=span.start,
        )
        stack[-1][0].children.append(element)
        if is_pair:
            stack.append((element, ends[number] - 1))
    return stack[0][0]


def _assign(element: _Element, target: tuple[int, int], aligned: list[int | None]) -> None:
    """Gives an element its target words, and those within it disjoint parts of them, the longest first."""
    element.target = target
    free = [target]
    taken = []
    points = []
    for child in sorted(element.children, key=lambda child: -len(child.words)):
        if not child.words:
            points.append(child)
            continue
        is_all = child.words == element.words and free == [target]
        parts = [(1, *target)] if is_all else [_densest(gap, child.words, aligned) for gap in free]
        gain, first, last = max(parts, key=itemgetter(0), default=(0, 0, 0))
        if gain > 0 and first < last:
            free = _without(free, first, last)
            taken.append((first, last))
            _assign(child, (first, last), aligned)
        else:
            points.append(child)
    places = np.array([math.inf if word is None else word for word in aligned[slice(*target)]])
    for child in sorted(points, key=lambda child: not child.words):
        at = target[0] + _point(child, element.words, places)
        rest = [i for gap in free for i in range(*gap)] if child.words else []
        if rest:  # around the word next to it, rather than around nothing
            word = min(rest, key=lambda i: abs(2 * (i - at) + 1))
            free = _without(free, word, word + 1)
            taken.append((word, word + 1))
            child.part = None
            _assign(child, (word, word + 1), aligned)
            continue
        for first, last in taken:
            if first < at < last:
                at = first if at - first <= last - at else last
                break
        _assign(child, (at, at), aligned)


def _without(gaps: list[tuple[int, int]], first: int, last: int) -> list[tuple[int, int]]:
    return [gap for a, b in gaps for gap in ([(a, first), (last, b)] if a <= first < b else [(a, b)])]


def _densest(gap: tuple[int, int], words: range, aligned: list[int | None]) -> tuple[int, int, int]:
    """The part of a gap with most target words that are aligned with `words`, less those that are with others."""
    best = (0, gap[0], gap[0])
    total = 0
    start = gap[0]
    for i in range(*gap):
        if total <= 0:
            total = 0
            start = i
        if aligned[i] is not None:
            total += 1 if aligned[i] in words else -1
        if total > best[0]:
            best = (total, start, i + 1)
    return best


def _point(child: _Element, words: range, places: np.ndarray) -> int:
    """Before which target word an empty element goes: where fewest words change sides, near ones above all.

    `places` are the source words with which the target words are aligned.
    """
    word = child.words.start
    left, right = child.neighbors
    leads = not left.strip() and right.strip() and word > words.start  # it is written right before the next word
    near = np.exp2(-np.abs(places - word))
    costs = np.cumsum(np.where(places < word, -2 * near * (0.99 if leads else 1.01), near))
    costs = np.append(0.0, costs)
    best = np.flatnonzero(costs == costs.min())
    return int(best[-1] if leads or word >= words.stop else best[0])


def _written(
    element: _Element, start: int, end: int, text: str, words: list[re.Match[str]]
) -> Iterator[tuple[int, int, str]]:
    """Yields (start, end, tag), in order, for the tags within an element that gets text[start:end]."""
    is_empty = start == end
    last_point = (-1, 0)  # the last empty element: where it is, and was
    for child in sorted(element.children, key=lambda child: child.target):
        first, last = child.target
        before = ''
        after = ''
        blank = 0
        begin = words[first].start(not child.signs[0]) if first < len(words) else end
        stop = words[last - 1].end(not child.signs[1]) if last else 0
        if child.part and last == first + 1:
            begin, stop = _part_of(words[first], *child.part)
        if first == last:
            leads, trails = (not is_empty and not character.strip() for character in child.neighbors)
            begin = stop = stop if last and (not leads or first == len(words)) else begin
            if last == len(words) > 1 and begin == words[-1].end() and not child.follows_stop:
                # The sign that ends the text stays after it.
                is_sign = not re.search(r'\w', words[-1][0])
                begin = stop = words[-2].end() if is_sign else words[-1].end(1)
                blank = words[-1].start() - stop if is_sign else 0
            # What stood next to a sign or a tag is not glued to a word.
            leads = leads or (text[start:begin][-1:].isalnum() and not child.neighbors[0].isalnum())
            trails = trails or (text[begin:end][:1].isalnum() and not child.neighbors[1].isalnum())
            touches = last_point[1] < child.start if last_point[0] == begin else text[:begin][-1:].strip()
            before = ' ' * bool(leads and touches)
            after = ' ' * bool(trails and text[begin:][:1].strip(' ,.;:!?)]…'))
            last_point = (-1 if after else begin, child.start)
        begin = min(max(begin, start), end)
        stop = min(max(stop, begin), end)
        blank = blank * text[stop : stop + blank].isspace()
        yield begin, begin, before + child.before
        yield from _written(child, begin, stop, text, words)
        yield stop, stop + blank, child.after + after
        start = stop


def _part_of(word: re.Match[str], source: str, start: int, stop: int) -> tuple[int, int]:
    """Where in a word an element goes that was around source[start:stop]; around all of it if that is not known."""
    first, last = word.span(1)
    size = stop - start
    if word[1] == source:
        return first + start, first + stop
    if size < min(_ENDING, last - first):
        if not start:
            return first, first + size
        if stop == len(source):
            return last - size, last
    return first, last
