"""Subtitles: SubRip and WebVTT."""

import re
from collections.abc import Callable

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.translation.inference.marked import Marked

from .document import Document, document_of, line_of
from .markup import Part
from .messages import message_parts

_TIME = r'(?:\d+:)?\d\d:\d\d[,.]\d{1,3}'
_TIMING = re.compile(rf'^[ \t]*({_TIME})[ \t]*-->[ \t]*({_TIME})[^\n]*(?:\n|\Z)', re.M)
_ARROW = re.compile(r'^.*-->.*', re.M)
_NUMBER = re.compile(r'(?:\A|\n)\s*\d+[ \t]*\r?\n\s*\Z')  # of the next subtitle
_BLANK_LINE = re.compile(r'\n\r?\n')
_EXPECTED = 'expected a number, a line with 00:00:01,000 --> 00:00:02,000, and text'


def read_subtitles(text: str, place: str) -> Document:
    is_vtt = text.startswith('WEBVTT')
    timings = list(_TIMING.finditer(text))
    starts = [timing.start() for timing in timings]
    faults = []
    last = (0.0,)

    def at_line(start: int) -> str:
        return f'{place}, line {line_of(text, start)}'

    before = text[: [*starts, len(text)][0]]
    if not is_vtt and not re.fullmatch(r'\s*(?:\d+\s*)?', before):
        raise UserError(f'{at_line(len(before) - len(before.lstrip()))}: got {before.strip()[:60]!r}; {_EXPECTED}')
    for line in _ARROW.finditer(text):
        if not _TIMING.match(text, line.start()):
            raise UserError(f'{at_line(line.start())}: got {line[0].strip()!r}; {_EXPECTED}')

    parts: list[Part] = []
    done = 0
    for timing, stop in zip(timings, [*starts[1:], len(text)], strict=False):
        begin, end = map(_seconds, timing.groups())
        if not last <= begin <= end:
            got = f'{timing[1]} --> {timing[2]}'
            faults.append(f'{at_line(timing.start())}: got {got}, expected times that do not run back')
        last = begin
        start = timing.end()
        blank = _BLANK_LINE.search(text, start - 1, stop) if is_vtt else None
        number = None if is_vtt or stop == len(text) else _NUMBER.search(text[start:stop])
        if blank:
            stop = max(blank.start(), start)
        elif number:
            stop = start + number.start()
        parts += [text[done:start], *message_parts(text[start:stop], encode=None if is_vtt else str)]
        done = stop
    return document_of([*parts, text[done:]], faults, _wrapping)


def _seconds(time: str) -> tuple[float, ...]:
    """Hours, minutes and seconds."""
    *hours, minutes, seconds = time.replace(',', '.').split(':')
    return float(hours[0] if hours else 0), float(minutes), float(seconds)


def _wrapping(line: Marked) -> Callable[[str], str]:
    """What gives a text as many lines as it had, or fewer, of much the same length; none ends within a tag."""
    count = line.raw.count('\n') + 1
    newline = '\r\n' if '\r\n' in line.raw else '\n'

    def wrapped(text: str) -> str:
        if count == 1 or '\n' in text:
            return text
        lines = [''] * count
        at = 0
        for word in re.split(r' +(?![^<>]*>)', text):
            lines[min(int(count * (at + len(word) / 2) / max(len(text), 1)), count - 1)] += f' {word}'
            at += len(word) + 1
        return newline.join(line.strip() for line in lines if line)

    return wrapped
