"""Subtitles: SubRip and WebVTT."""

import re
from collections.abc import Callable
from functools import partial

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
    starts = {timing.start() for timing in timings}
    faults = []
    last = (0.0,)

    def at_line(start: int) -> str:
        return f'{place}, line {line_of(text, start)}'

    before = text[: timings[0].start()] if timings else text
    if not is_vtt and not re.fullmatch(r'\s*(?:\d+\s*)?', before):
        raise UserError(f'{at_line(len(before) - len(before.lstrip()))}: got {before.strip()[:60]!r}; {_EXPECTED}')
    wrong = next((line for line in _ARROW.finditer(text) if line.start() not in starts), None)
    if wrong:
        raise UserError(f'{at_line(wrong.start())}: got {wrong[0].strip()!r}; {_EXPECTED}')

    parts: list[Part] = []
    done = 0
    for timing, stop in zip(timings, [*(timing.start() for timing in timings[1:]), len(text)], strict=False):
        begin, end = _seconds(timing[1]), _seconds(timing[2])
        if not last <= begin <= end:
            got = f'{timing[1]} --> {timing[2]}'
            faults.append(f'{at_line(timing.start())}: got {got}, expected times that do not run back')
        last = begin
        blank = _BLANK_LINE.search(text, timing.end() - 1, stop) if is_vtt else None
        number = None if is_vtt or stop == len(text) else _NUMBER.search(text[timing.end() : stop])
        if blank:
            stop = max(blank.start(), timing.end())
        elif number:
            stop = timing.end() + number.start()
        parts += [text[done : timing.end()], *message_parts(text[timing.end() : stop], encode=None if is_vtt else str)]
        done = stop
    return document_of([*parts, text[done:]], faults, _wrapping)


def _seconds(time: str) -> tuple[float, ...]:
    """Hours, minutes and seconds."""
    *hours, minutes, seconds = time.replace(',', '.').split(':')
    return float(hours[0] if hours else 0), float(minutes), float(seconds)


def _wrapping(line: Marked) -> Callable[[str], str]:
    """What gives a text much the lines that it had."""
    return partial(_wrapped, count=line.raw.count('\n') + 1, newline='\r\n' if '\r\n' in line.raw else '\n')


def _wrapped(text: str, count: int, newline: str) -> str:
    """The text in at most `count` lines of much the same length; none ends within a tag."""
    if count == 1 or '\n' in text:
        return text
    lines = [''] * count
    at = 0
    for word in re.split(r' +(?![^<>]*>)', text):
        lines[min(int(count * (at + len(word) / 2) / max(len(text), 1)), count - 1)] += f' {word}'
        at += len(word) + 1
    return newline.join(line.strip() for line in lines if line)
