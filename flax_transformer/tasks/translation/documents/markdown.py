"""Markdown: CommonMark with tables and strikethrough, and what sites add to it, which is kept."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from operator import methodcaller
from typing import Any

from flax_transformer.common.installing import imported
from flax_transformer.tasks.translation.inference.marked import Marked

from . import markup
from .attributes import html_attributes
from .document import Document, document_of
from .markup import Part, Token

_FRONT_MATTER = re.compile(r'\A\ufeff?(?:(---|\+\+\+)[ \t]*\r?\n.*?\n(?:\1|\.\.\.)[ \t]*(?:\r?\n|\Z))?', re.S)
_ROW = re.compile(r'([^\r\n]*)(?:\r\n?|\n|\Z)')
_BLANKS = re.compile(r'[ \t]*')
_PARENTHESES = r'\((?:[^()\\]|\\.|\((?:[^()\\]|\\.)*\))*\)'
# How tokens of a line are written.
_LINK = rf'\](?:{_PARENTHESES}|\[[^\]]*\])?'
_WRITTEN = {
    'image': rf'!\[(?:[^\[\]\\]|\\.|\[[^\[\]]*\])*{_LINK}',
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
    'own_line': 'break',
}
# What begins a line, and is no part of its sentence: of a task, a callout, a footnote, a container, a definition.
_LINE_START = re.compile(
    r"""
    (?P<own_line>\[![\w-]+\][+-]? | :{3,}[ \t]*[\w-]*(?:\{[^{}\n]*\})? | (?:!!!|\?\?\?)\+?[ \t]+[\w-]+
        | \[[^\[\]\n]+\]:[ \t]*(?:\w+:|[./\#<])[^\n]*)
    | (?P<break>\[[ xX]\](?=\s) | \[\^[^\]\s]+\]: | :[ \t]+ | \*\[[^\]\n]+\]:)
    """,
    re.X,
)
# Shortcodes and tags of templates, footnotes, attributes and emoji; and formulas, placeholders and roles.
_EXTENSION = re.compile(
    r"""
    (?P<void>\{\{[<%](?:(?!\{\{).)*?[%>]\}\} | \{%(?:(?!\{%).)*?%\} | \[\^[^\]\s]+\] | \[\[[^\[\]\n]*\]\]
        | (?<!\w):[a-z][\w+-]*:(?!\w)
        | \{:?[ ]*(?=[\#.:]|\w+=)[^{}\n]*\})
    | \$\$.+?\$\$ | (?<![\w$])\$(?![\s$])[^$\n]*?(?<![\s\\])\$(?![\w$]) | \{\{(?:(?!\{\{).)*?\}\} | &lt;/?\w[^&\n]*&gt;
    | \{[\w:-]+\}(`+)(?!`).*?(?<!`)\2(?!`)
    """,
    re.X | re.S,
)
_TEMPLATE = re.compile(r'\{%(?:(?!\{%).)*?%\}|\{\{(?:(?!\{\{).)*?\}\}')
_BLOCK_START = re.compile(r'\A(\d*)([.)](?<=\d.)(?=\s)|[-+*](?=\s)|#{1,6}(?=\s)|>)')
_IMAGE_ALT = re.compile(r'!\[([^\[\]\\`*_&<]*)\][(\[](?!\])')
# The code in templates' blocks looks like text.
_TEMPLATE_CODE = re.compile(r'\{%-? *(highlight|raw|comment)\b(?:(?!\{%-? *\1).)*?\{%-? *end\1 *-?%\}', re.S)


def read_markdown(text: str, place: str) -> Document:
    """Front matter, code, tags and addresses are kept."""
    return document_of(_parts(text), finishing=_finishing)


def _finishing(line: Marked) -> Callable[[str], str]:
    """Keeps a text that begins with `1. Mai` from becoming a list."""
    return str if _BLOCK_START.match(line.raw) else partial(_BLOCK_START.sub, r'\1\\\2', count=1)


def _parts(text: str) -> list[Part]:
    library = imported('markdown_it', 'documents', 'Markdown')
    # Texts are not joined with characters that are written in another way, such as \* and &amp;.
    reader = library.MarkdownIt('commonmark').enable(['table', 'strikethrough']).disable('text_join')
    reader.inline.ruler.before('text', 'extension', _read_extension)
    begin = _FRONT_MATTER.match(text).end()
    done = begin
    rows = [match.span(1) for match in _ROW.finditer(text, begin)]
    # Links may have templates as their addresses, with blanks that addresses do not have.
    masked = _TEMPLATE.sub(lambda match: match[0].replace(' ', '\ue000'), text)
    codes = [match.span() for match in _TEMPLATE_CODE.finditer(text)]
    parts: list[Part] = [text[:begin]]

    for token in reader.parse(masked[begin:]):
        if token.type not in ('html_block', 'inline') or not token.content.strip():
            continue
        content = token.content.rstrip('\n')
        places = _places(masked, content, rows[slice(*token.map)], done)
        if not places or any(start < places[-1] and places[0] < stop for start, stop in codes):
            continue
        if token.type == 'html_block':
            read = markup.html_tokens(content)
            tokens = _placed(read, text, places)
            if any(new.raw.split() != old.raw.split() for new, old in zip(tokens, read, strict=True)):
                continue  # within a quote, whose sign begins each line
            new = markup.html_parts(tokens, attributes=html_attributes)
        else:
            tokens = _separated(_placed(_markdown_tokens(content, token.children), text, places))
            is_split = list(map(_ends_sentence, tokens))
            new = markup.split_tokens(tokens, is_split, _escape_of(tokens), markup.NO_LANGUAGE, _attributes)
        if tokens:
            parts += [text[done : places[0]], *new]
            done = places[-1]
    return [*parts, text[done:]]


def _places(text: str, content: str, rows: Sequence[tuple[int, int]], done: int) -> list[int]:
    """Where each character of the content is in the text, and its end; empty if that is not known.

    Its lines are in rows, after `done` and after the signs of lists and quotes; cells write | as \\|.
    """
    places: list[int] = []
    for line, (start, stop) in zip(content.split('\n'), rows, strict=False):
        body = line.lstrip(' \t')
        written = re.escape(body).replace(r'\|', r'\\?\|')
        match = re.compile(written).search(text, max(start, done), stop)
        if not match:
            return []
        at = match.start()
        places += [at] * (len(line) - len(body))
        for character in body:
            places.append(at)
            at += 2 if character == '|' and text[at] == '\\' else 1
        places.append(at)
    return places


def _placed(tokens: Sequence[Token], text: str, places: list[int]) -> list[Token]:
    """The tokens as the text writes them, with the signs of lists and quotes at the beginning of each line."""
    placed = []
    at = 0
    for token in tokens:
        start = at
        at += len(token.raw)
        placed.append(token._replace(raw=text[places[start] : places[at]]))
    return placed


def _separated(tokens: Sequence[Token]) -> list[Token]:
    """The tokens; line ends next to what ends a sentence belong to it."""
    separated: list[Token] = []
    is_own = False  # whether this line is a sentence of its own
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        is_own = is_own or token.name == 'own_line'
        if token.value == '\n':
            if is_own or _ends_sentence(before) or _ends_sentence(after):
                token = token._replace(kind='break')
            is_own = False
        separated.append(token)
    return separated


def _ends_sentence(token: Token | None) -> bool:
    if token is None:
        return False
    return token.kind == 'break' or token.name == 'br' or markup.BRANCH.match(token.raw) is not None


def _read_extension(state: Any, silent: bool) -> bool:
    """A rule of the library: reads what is not CommonMark as a token of its own."""
    line_start = state.src.rfind('\n', 0, state.pos) + 1
    begins_line = _BLANKS.match(state.src, line_start).end() >= state.pos
    match = (begins_line and _LINE_START.match(state.src, state.pos)) or _EXTENSION.match(state.src, state.pos)
    if not match:
        return False
    if not silent:
        token = state.push(match.lastgroup or 'literal', '', 0)
        token.content = match[0]
    state.pos = match.end()
    return True


def _escape_of(tokens: Sequence[Token]) -> Callable[[str], str]:
    """Writes text as Markdown: signs that its author writes plainly stay plain."""
    plain = ''.join(token.raw for token in tokens if token.kind == 'text' and len(token.raw) == len(token.value))
    signs = ''.join(sign for sign in '\\`*[]<|' if sign not in plain)
    table = str.maketrans({sign: f'\\{sign}' for sign in signs})
    for token in tokens:
        if token.kind == 'text' and token.raw.startswith('&') and not token.value.isascii():
            table[ord(token.value)] = token.raw
    return methodcaller('translate', table)


def _attributes(token: Token) -> list[Part]:
    alt = _IMAGE_ALT.match(token.raw)
    if not alt or not any(map(str.isalpha, alt[1])):
        return html_attributes(token)
    return [token.raw[: alt.start(1)], markup.marked(alt[1], _escape_of([]), alt[1]), token.raw[alt.end(1) :]]


def _markdown_tokens(content: str, children: list[Any]) -> list[Token]:
    """The tokens of a paragraph, heading or cell; none if they do not follow each other in it."""
    tokens: list[Token] = []
    at = 0
    rest = iter(children)
    links: list[int] = []  # where texts of links begin

    for token in rest:
        start = at
        kind = token.type
        value = '\n' if kind == 'softbreak' else token.content
        opening = token.markup
        if token.markup == 'autolink':
            kind = 'autolink'
            next(rest), next(rest)  # its text, and its end
        elif not token.nesting and kind not in _WRITTEN:
            opening = token.markup if kind == 'text_special' else value
        elif kind == 'link_open':
            opening = '['

        written = re.compile(_WRITTEN.get(kind, re.escape(opening)), re.S)
        match = written.match(content, at)
        if not match:
            return []

        at = match.end()
        raw = content[start:at]
        new = ''
        if kind == 'link_open':
            links.append(at)
        elif kind == 'link_close':
            label = content[links.pop() : start]
            new = f'][{label}]' if raw in (']', '][]') else ''
        if kind == 'html_inline':
            tokens += markup.html_tokens(raw)
        else:
            form = _KINDS.get(kind) or {1: 'open', -1: 'close'}.get(token.nesting, kind)
            name = token.tag if token.nesting else kind
            tokens.append(Token(form, raw, name, value if form == 'text' else '', new))
    return tokens if at == len(content) else []
