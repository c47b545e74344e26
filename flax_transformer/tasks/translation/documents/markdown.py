"""Markdown: CommonMark with tables and strikethrough."""

import re
from typing import Any

from flax_transformer.common.installing import imported

from . import markup
from .document import Document
from .markup import Part

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


def read_markdown(text: str) -> Document:
    return Document([_markdown(text)])


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
