"""A document: the texts to translate in a file, and the file with their translations in place."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from flax_transformer.tasks.translation.inference.marked import Marked, edited
from flax_transformer.tasks.translation.inference.placeholders import placeholders

from .markup import Part

NEXT = '\0'  # a part of a unit: what follows goes to its next place


class Edit(NamedTuple):
    start: int
    end: int
    text: str


class Place(NamedTuple):
    """Characters of the file, and what a text becomes there; None if it cannot be written."""

    start: int
    end: int
    finish: Callable[[str], str | None] = str


class Unit(NamedTuple):
    """What is translated or left as a whole: its parts, joined, take the place of characters of the file."""

    parts: list[Part]
    places: Sequence[Place]
    source: int | None = None  # where it stays, if its translation goes elsewhere
    marks: Sequence[Edit] = ()  # what changes elsewhere with it
    left: Sequence[Edit] = ()  # what changes if it is left as it is

    @property
    def lines(self) -> list[Marked]:
        return [part for part in self.parts if isinstance(part, Marked)]

    @property
    def start(self) -> int:
        return self.places[0].start if self.source is None else self.source

    def edits(self, texts: Sequence[str]) -> list[Edit] | None:
        """What these texts of its lines change; None if one lacks what is to be kept."""
        if not all(map(_keeps, self.lines, texts)):
            return None
        rest = iter(texts)
        whole = ''.join(next(rest) if isinstance(part, Marked) else part for part in self.parts)
        pairs = zip(self.places, whole.split(NEXT), strict=True)
        edits = [Edit(place.start, place.end, place.finish(piece)) for place, piece in pairs]
        return None if any(edit.text is None for edit in edits) else [*edits, *self.marks]


class Document(NamedTuple):
    """The units of a file, in order."""

    text: str
    units: list[Unit]
    faults: Sequence[str] = ()  # what is amiss, and could be left as it is
    before: str = ''  # a byte order mark
    languages: Sequence[str] = ()  # that it is to be translated into
    naming: Sequence[Edit] = ()  # where a translation names its language, with {} for the code

    @property
    def lines(self) -> list[Marked]:
        return [line for unit in self.units for line in unit.lines]

    def identity(self) -> str:
        """The file with every text put back as it was, and none translated elsewhere."""
        document = self._replace(units=[unit for unit in self.units if unit.source is None])
        return document.with_texts([line.raw or line.text for line in document.lines])

    def with_texts(self, texts: Sequence[str], language: str | None = None) -> str:
        """The file with these texts, in a language, in place of `lines`; see `left` for those that it does not take."""
        edits = [edit._replace(text=edit.text.format(language)) for edit in self.naming if language]
        for unit, changed in self._edits(texts):
            edits += unit.left if changed is None else changed
        return self.before + edited(self.text, edits)

    def left(self, texts: Sequence[str]) -> list[str]:
        """Where units are, and what they say, that stay since these texts lack what is to be kept."""
        return [
            f'line {line_of(self.text, unit.start)}: {" ".join(line.text for line in unit.lines)!r}'
            for unit, edits in self._edits(texts)
            if edits is None
        ]

    def _edits(self, texts: Sequence[str]) -> Iterator[tuple[Unit, list[Edit] | None]]:
        done = 0
        for unit in self.units:
            start = done
            done += len(unit.lines)
            yield unit, unit.edits(texts[start:done])


def line_of(text: str, at: int) -> int:
    return text.count('\n', 0, at) + 1


def document_of(
    parts: Sequence[Part], faults: Sequence[str] = (), finishing: Callable[[Marked], Callable[[str], str]] | None = None
) -> Document:
    """The document that consists of these parts; `finishing(part)` says what becomes of a translation."""
    units = []
    written = []
    start = 0
    for part in parts:
        raw = part if isinstance(part, str) else part.raw or part.text
        if isinstance(part, Marked):
            finish = finishing(part) if finishing else str
            units.append(Unit([part], [Place(start, start + len(raw), finish)]))
        written.append(raw)
        start += len(raw)
    return Document(''.join(written), units, faults)


def _keeps(line: Marked, text: str) -> bool:
    """Whether a text has each span of a line, and each placeholder, as often as the line."""
    if text == line.raw:
        return True
    kept = [span.raw for span in line.spans if not span.parts]
    spans = ' '.join(kept)
    if len(kept) < len(line.spans):  # their texts may be anything
        return all(name in text for name in kept)
    names = {raw for raw in kept if re.search(r'[^\w\s]', raw)}  # letters may be in a word, too
    for name in names:
        most = max(spans.count(name), line.raw.count(name))  # * may be in its words, too
        if not spans.count(name) <= text.count(name) <= most:
            return False
    pattern = placeholders(line.family) if line.family else None
    return pattern is None or sorted(pattern.findall(text)) == sorted(pattern.findall(spans))
