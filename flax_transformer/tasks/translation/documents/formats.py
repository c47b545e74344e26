"""Documents: the texts to translate in a file, and the file with their translations in their place."""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from flax_transformer.common.errors import UserError
from flax_transformer.common.installing import install_command
from flax_transformer.tasks.translation.documents.literals import with_literals
from flax_transformer.tasks.translation.documents.markdown import split_markdown
from flax_transformer.tasks.translation.documents.marked import Marked, Span
from flax_transformer.tasks.translation.documents.markup import (
    Part,
    end_of,
    html_tokens,
    split_html,
    split_tokens,
    split_xml,
    unclosed,
    xml_tokens,
)

FORMATS = {
    **{'.html': 'html', '.htm': 'html', '.xml': 'xml', '.po': 'po', '.srt': 'srt', '.xlf': 'xliff', '.xliff': 'xliff'},
    **{'.md': 'markdown', '.markdown': 'markdown'},
}
_PLAIN_TAG = re.compile(r'<(/?)([A-Za-z]\w*)(?:\s[^<>]*)?>|\{\\[^{}]*\}')  # in subtitles and messages
_TIMES = 'a number, a line with 00:00:01,000 --> 00:00:02,000, and text'
# Of XLIFF: what has a source and a target, and what holds the markup of another format.
_UNITS, _CODES = ('trans-unit', 'segment'), ('bpt', 'ept', 'it', 'ph')


class Document(NamedTuple):
    """The units of a file, each of parts that are translated and parts that are kept."""

    units: list[list[Part]]
    write: Callable[[list[str]], str]  # the file of the units' texts
    faults: Sequence[str] = ()  # what is amiss, and could be left as it is

    @property
    def lines(self) -> list[Marked]:
        return [part for unit in self.units for part in unit if isinstance(part, Marked)]

    def with_texts(self, texts: Sequence[str]) -> str:
        """The file with these texts in place of `lines`."""
        each = iter(texts)
        return self.write([''.join(next(each) if isinstance(part, Marked) else part for part in u) for u in self.units])


def read_document(content: bytes, form: str, place: str) -> Document:
    """The document in a file's content. Raises UserError, which begins with the place, if it is no such document."""
    try:
        text = content.decode('utf-8')
    except UnicodeDecodeError as error:
        line = content.count(b'\n', 0, error.start) + 1
        got = f'byte 0x{content[error.start]:02x} is not valid UTF-8'
        raise UserError(f'{place}, line {line}: {got}; expected UTF-8: convert the file with iconv') from None
    if '\0' in text:
        raise UserError(
            f'{place}, line {text.count(chr(10), 0, text.index(chr(0))) + 1}: got a zero byte, expected text'
        )
    return _READERS[form](text, place)


def plain_parts(text: str) -> list[Part]:
    """The parts of a text of lines, which may have tags; white space around each line is kept."""
    parts: list[Part] = []
    for line in re.split('([ \t]*\r?\n[ \t]*)', text):
        before, spans, done = '', [], 0
        for match in _PLAIN_TAG.finditer(line):
            before, done = before + line[done : match.start()], match.end()
            kind = 'close' if match[1] else 'void' if not match[2] or match[0].endswith('/>') else 'open'
            spans.append(Span(len(before), len(before), kind, match[0], match[2] or ''))
        before += line[done:]
        is_language = any(map(str.isalpha, before))
        parts.append(with_literals(Marked(before, tuple(spans))) if is_language else line)
    return parts


def _html(text: str, place: str) -> Document:
    return Document([split_html(text)], ''.join, unclosed(html_tokens(text), place))


def _po(text: str, place: str) -> Document:
    polib = _library('polib')
    try:
        file = polib.pofile(f'{text}\n', wrapwidth=0 if not re.search(r'^msg\w+ ""\n"', text, re.M) else 78)
    except OSError as error:
        line, _, why = str(error).partition('line ')[2].partition(')')
        got = why.strip(': ') or 'no line of a PO file'
        raise UserError(f'{place}, line {line}: got {got}; expected msgid, msgstr, "text" or a comment') from None
    entries = [entry for entry in file if not entry.obsolete]
    if not entries:
        raise UserError(f'{place}: got no messages, expected a PO file with msgid and msgstr')
    header = re.search(r'nplurals\s*=\s*(\d+)', file.metadata.get('Plural-Forms', ''))
    count = int(header[1]) if header else 2
    units, setters, faults = [], [], []
    for entry in entries:
        forms = entry.msgstr_plural if entry.msgid_plural else {}
        if entry.msgid_plural and (not header or sorted(forms) != list(range(count))):
            got = ', '.join(f'msgstr[{form}]' for form in sorted(forms)) or 'no msgstr[0]'
            why = '' if header else '; the header has no Plural-Forms'
            faults.append(f'{place}, line {entry.linenum}: got {got}, expected {count} plural forms{why}')
        for form in range(count) if entry.msgid_plural else [None]:
            if not (entry.msgstr if form is None else forms.get(form)):
                is_singular = form is None or (form == 0 and count > 1)
                units.append(plain_parts(entry.msgid if is_singular else entry.msgid_plural))
                setters.append((entry, form))

    def write(texts: list[str]) -> str:
        for (entry, form), translation in zip(setters, texts, strict=True):
            if form is None:
                entry.msgstr = translation
            else:
                entry.msgstr_plural[form] = translation
        return f'{file}'

    return Document(units, write, faults)


def _srt(text: str, place: str) -> Document:
    srt = _library('srt')
    try:
        subtitles = list(srt.parse(text))
    except (srt.SRTParseError, ValueError) as error:
        line = text.count('\n', 0, getattr(error, 'expected_start', 0)) + 1
        got = getattr(error, 'unmatched_content', text).strip()[:60]
        raise UserError(f'{place}, line {line}: got {got!r}; expected {_TIMES}') from None
    if not subtitles:
        raise UserError(f'{place}: got no subtitles, expected {_TIMES}')
    times = [number for number, line in enumerate(text.splitlines(), start=1) if '-->' in line]
    faults, last = [], subtitles[0].start
    for line, each in zip(times, subtitles, strict=False):
        if not last <= each.start <= each.end:
            begin, end = map(srt.timedelta_to_srt_timestamp, (each.start, each.end))
            faults.append(f'{place}, line {line}: got {begin} --> {end}, expected times that do not run back')
        last = each.start

    def write(texts: list[str]) -> str:
        for each, translation in zip(subtitles, texts, strict=True):
            each.content = _wrapped(translation, each.content.count('\n') + 1)
        composed = srt.compose(subtitles, reindex=False, strict=False, eol='\r\n' if '\r\n' in text else '\n')
        return composed.rstrip() + text[len(text.rstrip()) :]

    # A sentence goes on in the next line, unless somebody else speaks.
    joined = [re.sub(r'\s*\n(?!\s*[-–—])\s*', ' ', each.content) for each in subtitles]
    return Document([plain_parts(each) for each in joined], write, faults)


def _wrapped(text: str, count: int) -> str:
    """The text in `count` lines of much the same length, if it has as many words; none ends within a tag."""
    lines, words = [], re.split(r' +(?![^<>]*>)', text)
    for left in range(count, 0, -1):
        size, line = len(' '.join(words)) / left, []
        while words and (left == 1 or not line or len(' '.join([*line, words[0]])) - len(words[0]) / 2 <= size):
            line.append(words.pop(0))
        lines.append(' '.join(line))
    return '\n'.join(filter(None, lines)) if '\n' not in text else text


def _xliff(text: str, place: str) -> Document:
    tokens = xml_tokens(text, place)
    if next((token.name for token in tokens if token.kind == 'open'), '') != 'xliff':
        raise UserError(f'{place}: got XML of another kind, expected <xliff> around everything')
    parts: list[Part] = []
    path: list[Any] = []
    number = 0
    raw = lambda first, last: ''.join(token.raw for token in tokens[first:last])
    while number < len(tokens):
        token = tokens[number]
        number += 1
        is_kept = any(each.value.get('translate') == 'no' for each in path)
        if token.name == 'source' and token.kind == 'open' and path[-1].name in _UNITS and not is_kept:
            begin, end = number - 1, end_of(tokens, number)
            source = split_tokens(tokens[number : end - 1], [False] * (end - 1 - number), _CODES)
            stop = next(i for i in range(end, len(tokens)) if tokens[i].name in (path[-1].name, 'alt-trans'))
            target = next((i for i in range(end, stop) if tokens[i].name == 'target'), end)
            number = target
            new = ['<target>', *source, '</target>']
            if target > end or tokens[end].name == 'target':
                number = target + 1 if tokens[target].kind == 'void' else end_of(tokens, target + 1)
                new[0] = f'{tokens[target].raw.rstrip("/>").rstrip()}>'
                new = [raw(target, number)] if raw(target + 1, number - 1).strip() else new
            parts += [raw(begin, target), *new]
            continue
        if token.kind == 'close':
            path.pop()
        elif token.kind == 'open':
            path.append(token)
        parts.append(token.raw)
    return Document([parts], ''.join)


def _library(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        raise UserError(f'this format needs the package {name}: {install_command("documents")}') from None


_READERS: dict[str, Callable[[str, str], Document]] = {
    'html': _html,
    'xml': lambda text, place: Document([split_xml(text, place=place)], ''.join),
    'xliff': _xliff,
    'po': _po,
    'srt': _srt,
    'markdown': lambda text, place: Document([split_markdown(text)], ''.join),
}
