"""Documents: the texts to translate in a file, and the file with their translations in place.

Markdown is CommonMark with tables and strikethrough.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from flax_transformer.common.errors import UserError
from flax_transformer.common.installing import imported
from flax_transformer.data.lines import utf8_fault

from . import markup
from .marked import Marked
from .markup import Part

FORMATS = {
    '.html': 'html',
    '.htm': 'html',
    '.xml': 'xml',
    '.po': 'po',
    '.srt': 'srt',
    '.xlf': 'xliff',
    '.xliff': 'xliff',
    '.md': 'markdown',
    '.markdown': 'markdown',
}
# Tags of messages and subtitles, and line ends.
_PLAIN = re.compile(r'<(?P<close>/)?(?P<name>[A-Za-z]\w*)(?:[\s/][^<>]*)?>|\{\\[^{}]*\}|\r?\n')
_FRONT_MATTER = re.compile(r'\A(---|\+\+\+)[ \t]*\n.*?\n(?:\1|\.\.\.)[ \t]*\n', re.S)
_PARENTHESES = r'\((?:[^()\\]|\\.|\((?:[^()\\]|\\.)*\))*\)'
# How tokens of a line are written.
_LINK = rf'\](?:{_PARENTHESES}|\[[^\]]*\])?'
_WRITTEN = {
    'image': rf'!\[(?:[^\[\]\\]|\\.)*{_LINK}',
    'link_close': _LINK,
    'softbreak': r'[ \t]*\n[ \t]*',
    'hardbreak': r'(?: {2,}|\\)\n[ \t]*',
    'code_inline': r'(`+)(?!`).*?(?<!`)\1(?!`)',
    'autolink': '<[^>]*>',
}
_KINDS = {
    'text': 'text',
    'text_special': 'text',
    'softbreak': 'text',
    'hardbreak': 'break',
    'image': 'void',
    'code_inline': 'literal',
    'autolink': 'literal',
}
_TIMES = 'a number, a line with 00:00:01,000 --> 00:00:02,000, and text'


class Document(NamedTuple):
    """The units of a file, each of parts that are translated and parts that are kept."""

    units: list[list[Part]]
    write: Callable[[list[str]], str] = ''.join  # the file of the units' texts
    faults: Sequence[str] = ()  # what is amiss, and could be left as it is

    @property
    def lines(self) -> list[Marked]:
        return [part for unit in self.units for part in unit if isinstance(part, Marked)]

    def with_texts(self, texts: Sequence[str]) -> str:
        """The file with these texts in place of `lines`."""
        rest = iter(texts)
        units = [[next(rest) if isinstance(part, Marked) else part for part in unit] for unit in self.units]
        return self.write(list(map(''.join, units)))


def read_document(content: bytes, form: str, place: str) -> Document:
    """Raises UserError, which names the place, if the content is no such document."""
    try:
        text = content.decode('utf-8')
    except UnicodeDecodeError as error:
        line = content.count(b'\n', 0, error.start) + 1
        raise UserError(f'{place}, line {line}: {utf8_fault(error)}') from None
    if '\0' in text:
        raise UserError(f'{place}: got a zero byte, expected text')
    if form == 'html':
        return Document([markup.split_html(text)], faults=markup.unclosed(text, place))
    if form == 'po':
        return _po(text, place)
    if form == 'srt':
        return _srt(text, place)
    if form == 'markdown':
        return Document([_markdown(text)])
    if form == 'xliff':
        return Document([markup.split_xliff(text, place)])
    return Document([markup.split_xml(text, place=place)])


def plain_parts(text: str) -> list[Part]:
    """The parts of a text of lines, which may have tags."""
    tokens = markup.tokens_of(text, _PLAIN)
    return markup.split_tokens(tokens, [token.raw.endswith('\n') for token in tokens])


def _markdown(text: str) -> list[Part]:
    """The parts of a text; front matter, code, tags and addresses are kept."""
    library = imported('markdown_it', 'documents', 'Markdown')
    # Texts are not joined with characters that are written in another way, such as \* and &amp;.
    reader = library.MarkdownIt('commonmark').enable(['table', 'strikethrough']).disable('text_join')
    front = _FRONT_MATTER.match(text)
    done = begin = front.end() if front else 0
    lines = [begin, *(begin + match.end() for match in re.finditer('\n', text[begin:])), len(text)]
    parts: list[Part] = [text[:begin]]

    for token in reader.parse(text[begin:]):
        if token.type not in ('html_block', 'inline'):
            continue
        start, stop = lines[token.map[0]], lines[token.map[1]]
        if token.type == 'html_block':
            parts += [text[done:start], *markup.split_html(text[start:stop])]
            done = stop
        else:
            first, *more = token.content.split('\n')
            last = more[-1].strip() if more else first
            start = text.find(first, max(done, start), stop)
            stop = text.find(last, lines[token.map[0] + len(more)] if more else start, stop) + len(last)
            tokens = _markdown_tokens(token.content, token.children)
            if start >= 0 and tokens:  # a cell with an escaped | is nowhere, and stays
                is_split = [token.kind == 'break' for token in tokens]
                parts += [text[done:start], *markup.split_tokens(tokens, is_split, _escape_markdown)]
                done = stop
    return [*parts, text[done:]]


def _escape_markdown(text: str) -> str:
    return re.sub(r'([\\`*\[\]<])', r'\\\1', text)


def _markdown_tokens(content: str, children: list[Any]) -> list[markup.Token]:
    """The tokens of a paragraph, heading or cell; none if they do not follow each other in it."""
    tokens: list[markup.Token] = []
    at = 0
    rest = iter(children)

    for token in rest:
        start = at
        kind = token.type
        value = '\n' if kind == 'softbreak' else token.content
        opening = token.markup
        if token.markup == 'autolink':
            kind = 'autolink'
            next(rest), next(rest)  # its text, and its end
        elif kind in ('text', 'html_inline'):
            opening = value
        elif kind == 'link_open':
            opening = '['

        written = re.compile(_WRITTEN.get(kind, re.escape(opening)), re.S)
        match = written.match(content, at)
        if not match:
            return []

        at = match.end()
        raw = content[start:at]
        if kind == 'html_inline':
            tokens += markup.html_tokens(raw)
        else:
            form = _KINDS.get(kind) or {1: 'open', -1: 'close'}[token.nesting]
            tokens.append(markup.Token(form, raw, token.tag, value))
    return tokens if at == len(content) else []


def _po(text: str, place: str) -> Document:
    try:
        file = imported('polib', 'documents', 'PO').pofile(f'{text}\n')
    except OSError as error:
        line, _, why = str(error).partition('line ')[2].partition(')')
        got = why.strip(': ') or 'no line of a PO file'
        raise UserError(f'{place}, line {line}: got {got}; expected msgid, msgstr, "text" or a comment') from None
    header = re.search(r'nplurals\s*=\s*(\d+)', file.metadata.get('Plural-Forms', ''))
    count = int(header[1]) if header else 2
    units = []
    owners = []
    faults = []

    for entry in file:
        forms = {None: entry.msgstr}
        wanted = [None]
        if entry.msgid_plural:
            forms = entry.msgstr_plural
            wanted = range(count)
        if entry.msgid_plural and (not header or {*forms} != {*wanted}):
            got = ', '.join(f'msgstr[{form}]' for form in sorted(forms)) or 'no msgstr[0]'
            why = '' if header else '; the header has no Plural-Forms'
            faults.append(f'{place}, line {max(entry.linenum, 1)}: got {got}, expected {count} plural forms{why}')

        for form in wanted:
            if not entry.obsolete and not forms.get(form):
                is_plural = form is not None and (form > 0 or count == 1)
                units.append(plain_parts(entry.msgid_plural if is_plural else entry.msgid))
                owners.append((entry, form))

    def write(texts: list[str]) -> str:
        for (entry, form), translation in zip(owners, texts, strict=True):
            if form is None:
                entry.msgstr = translation
            else:
                entry.msgstr_plural[form] = translation
        return str(file)

    return Document(units, write, faults)


def _srt(text: str, place: str) -> Document:
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
