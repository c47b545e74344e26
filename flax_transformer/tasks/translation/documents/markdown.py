"""Markdown (CommonMark with tables and strikethrough) as texts and what is kept as it stands between."""

import html
import re
from typing import Any

from flax_transformer.common.errors import UserError
from flax_transformer.common.installing import install_command
from flax_transformer.tasks.translation.documents.literals import with_literals
from flax_transformer.tasks.translation.documents.marked import Marked, Span
from flax_transformer.tasks.translation.documents.markup import Part, html_tokens, split_html

_FRONT_MATTER = re.compile(r'\A(---|\+\+\+)[ \t]*\n.*?\n(?:\1|\.\.\.)[ \t]*\n', re.S)
_PARENTHESES = r'\((?:[^()\\]|\\.|\((?:[^()\\]|\\.)*\))*\)'
# How a token of a line is written, from where it begins.
_WRITTEN = {
    'image': re.compile(rf'!\[(?:[^\[\]\\]|\\.)*\](?:{_PARENTHESES}|\[[^\]]*\])?', re.S),
    'link_close': re.compile(rf'\](?:{_PARENTHESES}|\[[^\]]*\])?', re.S),
    'softbreak': re.compile(r'[ \t]*\n[ \t]*'),
    'hardbreak': re.compile(r'(?: {2,}|\\)\n[ \t]*'),
    'code_inline': re.compile(r'(`+)(?!`).*?(?<!`)\1(?!`)', re.S),
    'autolink': re.compile('<[^>]*>'),
}
_CHARACTER = re.compile(r'\\([!-/:-@[-`{-~])|&(?:#\w+|\w+);|.', re.S)
_escape = lambda text: re.sub(r'([\\`*\[\]<])', r'\\\1', text)


def split_markdown(text: str) -> list[Part]:
    """The parts of a text; front matter, code, HTML blocks' tags and addresses are kept."""
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        raise UserError(f'Markdown needs the package markdown-it-py: {install_command("documents")}') from None
    front = _FRONT_MATTER.match(text)
    begin = front.end() if front else 0
    body = text[begin:]
    lines = [begin, *(begin + match.end() for match in re.finditer('\n', body)), len(text)]
    parts: list[Part] = []
    done = 0
    for token in MarkdownIt('commonmark').enable(['table', 'strikethrough']).parse(body):
        if token.type == 'html_block':
            start, stop = lines[token.map[0]], lines[token.map[1]]
            parts += [text[done:start], *split_html(text[start:stop])]
            done = stop
        elif token.type == 'inline' and token.content:
            first, *more = token.content.split('\n')
            start = text.find(first, max(done, lines[token.map[0]]), lines[token.map[0] + 1])
            stop = start + len(first)
            if more:
                row = lines[token.map[0] + len(more)]
                stop = text.find(more[-1].strip(), row, lines[token.map[1]]) + len(more[-1].strip())
            if start >= 0 and (found := _inline(token.content, token.children)):
                parts += [text[done:start], *found]
                done = stop
    return [*parts, text[done:]]


def _inline(content: str, children: list[Any]) -> list[Part] | None:
    """The parts of a paragraph, heading or cell; None if its tokens are not found in it, one after the other."""
    parts: list[Part] = []
    at = begin = 0
    text, spans = '', []
    tokens = iter(children)
    for token in tokens:
        kind, start = token.type, at
        if kind == 'text':
            decoded = ''
            while len(decoded) < len(token.content) and (character := _CHARACTER.match(content, at)):
                decoded += character[1] or html.unescape(character[0])
                at = character.end()
            if decoded != token.content:
                return None
            text += decoded
            continue
        is_address = token.markup == 'autolink'
        if is_address:
            _ = next(tokens), next(tokens)  # its text, and its end
        written = _WRITTEN.get('autolink' if is_address else kind) or re.compile(re.escape(_opening(token)))
        if not (found := written.match(content, at)):
            return None
        at = found.end()
        if kind == 'hardbreak':
            parts += [_sentence(text, spans, content[begin:start]), content[start:at]]
            text, spans, begin = '', [], at
        elif kind == 'softbreak':
            text += ' '
        elif kind == 'code_inline' or is_address:
            spans.append(Span(len(text), len(text) + 1, 'literal', found[0]))
            text += '\ufffc'
        else:
            spans.append(_tag(token, found[0], len(text)))
    return [*parts, _sentence(text, spans, content[begin:at]), content[at:]]


def _opening(token: Any) -> str:
    return token.content if token.type == 'html_inline' else '[' if token.type == 'link_open' else token.markup


def _tag(token: Any, raw: str, at: int) -> Span:
    if token.type != 'html_inline':
        kind = {1: 'open', -1: 'close'}.get(token.nesting, 'void')
        return Span(at, at, kind, raw, token.tag)
    (found,) = html_tokens(raw)
    return Span(at, at, found.kind if found.kind in ('open', 'close') else 'void', raw, found.name)


def _sentence(text: str, spans: list[Span], raw: str) -> Part:
    return with_literals(Marked(text, tuple(spans), _escape)) if any(map(str.isalpha, text)) else raw
