"""Subtitles of SubRip."""

import re

from flax_transformer.common.errors import UserError
from flax_transformer.common.installing import imported

from .document import Document, plain_parts

_TIMES = 'a number, a line with 00:00:01,000 --> 00:00:02,000, and text'


def read_srt(text: str, place: str) -> Document:
    srt = imported('srt', 'documents', 'SRT')

    def line_of(start: int) -> int:
        return text.count('\n', 0, start) + 1

    wrong = re.search(rf'^\d+[ \t\r]*\n(?!\s*{srt.RGX_TIMESTAMP}.*{srt.RGX_TIMESTAMP})(.*-->.*)', text, re.M)
    if wrong:
        raise UserError(f'{place}, line {line_of(wrong.start(1))}: got {wrong[1].strip()!r}; expected {_TIMES}')
    try:
        subtitles = list(srt.parse(text))
    except (srt.SRTParseError, ValueError) as error:
        line = line_of(getattr(error, 'expected_start', 0))
        got = getattr(error, 'unmatched_content', text).strip()
        raise UserError(f'{place}, line {line}: got {got[:60]!r}; expected {_TIMES}') from None
    times = [number for number, line in enumerate(text.splitlines(), start=1) if '-->' in line]
    faults = []
    last = srt.timedelta(0)
    for line, subtitle in zip(times, subtitles, strict=False):
        if not last <= subtitle.start <= subtitle.end:
            begin, end = map(srt.timedelta_to_srt_timestamp, (subtitle.start, subtitle.end))
            faults.append(f'{place}, line {line}: got {begin} --> {end}, expected times that do not run back')
        last = subtitle.start

    def write(texts: list[str]) -> str:
        for subtitle, translation in zip(subtitles, texts, strict=True):
            subtitle.content = _wrapped(translation, subtitle.content.count('\n') + 1)
        composed = srt.compose(subtitles, reindex=False, strict=False, eol='\r\n' if '\r\n' in text else '\n')
        return composed.rstrip() + text[len(text.rstrip()) :]

    # A sentence goes on in the next line, unless somebody else speaks.
    units = [plain_parts(re.sub(r'\s*\n(?!\s*[-–—])\s*', ' ', subtitle.content)) for subtitle in subtitles]
    return Document(units, write, faults)


def _wrapped(text: str, count: int) -> str:
    """The text in at most `count` lines of much the same length; none ends within a tag."""
    if '\n' in text:
        return text
    lines = [''] * count
    at = 0
    for word in re.split(r' +(?![^<>]*>)', text):
        lines[min(int(count * (at + len(word) / 2) / max(len(text), 1)), count - 1)] += f' {word}'
        at += len(word) + 1
    return '\n'.join(line.strip() for line in lines if line)
