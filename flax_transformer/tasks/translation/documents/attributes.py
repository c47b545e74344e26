"""Attributes of HTML that people read or hear: their values are translated, in place."""

import html
import re
from collections.abc import Callable

from .markup import HTML, KEPT, Part, Token, marked

# Scanned one after the other: what looks like an attribute within a value is none.
_ATTRIBUTE = re.compile(r"""(?<=[\s"'/])([^\s<>=/"']+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s>"']+))?""")
_READ = ('alt', 'title', 'placeholder', 'aria-label')
_BUTTON = re.compile(r"""<input\b.*?\stype\s*=\s*["']?(?:button|submit|reset)\b""", re.I | re.S)


def html_attributes(token: Token) -> list[Part]:
    """The parts of a tag, or of several: values that are read, and what is around them."""
    parts: list[Part] = []
    done = 0
    for tag in HTML.finditer(token.raw):
        if not tag['name'] or tag['close'] or KEPT.search(tag[0]):
            continue
        is_button = _BUTTON.match(tag[0])
        for match in _ATTRIBUTE.finditer(token.raw, tag.end('name'), tag.end()):
            value = match[2] or ''
            is_quoted = value[:1] in ('"', "'")
            start = match.start(2) + is_quoted
            stop = match.end(2) - is_quoted
            text = html.unescape(token.raw[start:stop])
            is_read = match[1].lower() in _READ or (is_button and match[1].lower() == 'value')
            if is_read and any(map(str.isalpha, text)):
                escape = _escape_of(value[0] if is_quoted else '')
                parts += [token.raw[done:start], marked(text, escape, token.raw[start:stop])]
                done = stop
    return [*parts, token.raw[done:]]


def _escape_of(quote: str) -> Callable[[str], str]:
    """Writes text as a value in these quotes; in quotes of its own where there are none."""

    def escape(text: str) -> str:
        text = text.replace('&', '&amp;').replace('<', '&lt;')
        text = text.replace("'", '&#39;') if quote == "'" else text.replace('"', '&quot;')
        return text if quote else f'"{text}"'

    return escape
