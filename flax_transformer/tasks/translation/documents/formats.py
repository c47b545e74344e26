"""The formats of documents, by the names of files."""

from flax_transformer.common.errors import UserError
from flax_transformer.data.lines import utf8_fault

from . import markup
from .attributes import html_attributes
from .document import Document
from .markdown import read_markdown
from .po import read_po
from .subtitles import read_srt
from .xliff import read_xliff

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
        parts = markup.html_parts(markup.html_tokens(text), attributes=html_attributes)
        return Document([parts], faults=markup.unclosed(text, place))
    if form == 'po':
        return read_po(text, place)
    if form == 'srt':
        return read_srt(text, place)
    if form == 'markdown':
        return read_markdown(text)
    if form == 'xliff':
        return read_xliff(text, place)
    return Document([markup.split_xml(text, place=place)])
