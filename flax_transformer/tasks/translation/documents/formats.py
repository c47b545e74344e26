"""The formats of documents, by the names of files and by what is in them."""

import codecs
import contextlib
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NamedTuple

from flax_transformer.common.errors import UserError
from flax_transformer.data.lines import utf8_fault
from flax_transformer.text.languages import THREE_LETTERS

from . import markup
from .attributes import html_attributes
from .document import Document, Edit, document_of
from .markdown import read_markdown
from .po import read_po
from .resources import read_fluent, read_json, read_properties
from .subtitles import read_subtitles
from .xliff import read_xliff

_LANG = re.compile(r'\s(?:xml:)?lang\s*=\s*["\']?([\w-]+)', re.I)


def _read_html(text: str, place: str) -> Document:
    tokens = markup.html_tokens(text)
    document = document_of(markup.html_parts(tokens, attributes=html_attributes), markup.unclosed(tokens, place))
    naming = []
    start = 0
    for token in tokens:
        if token.name == 'html' and token.kind == 'open':
            naming += [Edit(start + match.start(1), start + match.end(1), '{}') for match in _LANG.finditer(token.raw)]
        start += len(token.raw)
    return document._replace(naming=naming)


def _read_xml(text: str, place: str) -> Document:
    return document_of(markup.split_xml(text, place=place))


class Format(NamedTuple):
    suffixes: str
    read: Callable[[str, str], Document]  # of a text, and of its name in messages
    begin: str = r'(?!)'  # a pattern of how such files begin


_XML_BEGIN = r'(?:<\?xml[^>]*>)?(?:\s|<!--.*?-->)*'
FORMATS = {
    'text': Format('', lambda text, place: document_of(markup.split_lines(text))),
    'html': Format('.html .htm .xhtml', _read_html, rf'{_XML_BEGIN}<(?:!doctype\s+html|html)\b'),
    'xliff': Format('.xlf .xliff', read_xliff, rf'{_XML_BEGIN}<xliff\b'),
    'xml': Format('.xml', _read_xml, r'<\?xml\b'),
    'markdown': Format('.md .markdown', read_markdown),
    'po': Format('.po .pot', read_po, r'(?:\s|#[^\n]*\n)*msgid\s+"'),
    'json': Format('.json .arb', read_json),
    'properties': Format('.properties', read_properties),
    'fluent': Format('.ftl', read_fluent),
    'vtt': Format('.vtt', read_subtitles, r'WEBVTT\b'),
    'srt': Format('.srt', read_subtitles, r'\d+\s*\n\s*[\d:,]+ *--> *[\d:,]+'),
}
_BY_SUFFIX = {suffix: name for name, form in FORMATS.items() for suffix in form.suffixes.split()}
_BY_SUFFIX['.jsonl'] = 'jsonl'
_OFTEN_OTHERS = ('.txt', '.text', '', '.xml', '.srt')  # names whose content may be of another format
_HEAD = 4096
_ENCODING = re.compile(r'<\?xml[^>]*\sencoding\s*=\s*["\']([\w.-]+)')


def format_of(file: Path, content: bytes | None = None) -> str:
    """The format of a file, or of content with its name; `text` for lines.

    Raises UserError if its name says nothing known.
    """
    suffix = file.suffix.lower()
    name = _BY_SUFFIX.get(suffix)
    is_text = suffix in ('', '.txt', '.text') or suffix[1:] in THREE_LETTERS
    if (suffix in _OFTEN_OTHERS or not (name or is_text)) and (content is not None or file.is_file()):
        with file.open('rb') if content is None else io.BytesIO(content) as opened:
            head = opened.read(_HEAD).decode('utf-8-sig', 'replace').lstrip()
            begins = (name for name, form in FORMATS.items() if re.match(form.begin, head, re.I | re.S))
            name = next(begins, name) or ('json' if _is_json(head, opened) else None)
    if name or is_text:
        return name or 'text'
    known = ', '.join(_BY_SUFFIX)
    raise UserError(f'{file}: got a file of an unknown format, expected {known} or .txt')


def _is_json(head: str, opened: BinaryIO) -> bool:
    opened.seek(0)
    with contextlib.suppress(ValueError, RecursionError):
        return head[:1] in ('{', '[') and json.load(opened) is not None
    return False


def read_document(content: bytes, form: str, place: str) -> Document:
    """Raises UserError, which names the place, if the content is no such document."""
    if form not in FORMATS:
        raise UserError(f'{place}: got {form}, expected a document')
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UserError(f'{place}: got UTF-16, expected UTF-8; convert it, as by `iconv -f UTF-16 -t UTF-8`')
    try:
        text = content.decode('utf-8')
    except UnicodeDecodeError as error:
        line = content.count(b'\n', 0, error.start) + 1
        raise UserError(f'{place}, line {line}: {utf8_fault(error)}') from None
    if '\0' in text:
        raise UserError(f'{place}: got a zero byte, expected text')
    encoding = _ENCODING.match(text.lstrip('\ufeff'))
    if encoding and encoding[1].lower() not in ('utf-8', 'us-ascii'):
        raise UserError(
            f'{place}: got encoding={encoding[1]}, expected UTF-8; convert it and what it says, as by iconv'
        )
    mark = text[: text.startswith('\ufeff')]
    document = FORMATS[form].read(text[len(mark) :], place)._replace(before=mark)
    if document.identity() != text:
        raise UserError(f'{place}: this {form} could not be written as it was; nothing was')
    return document
