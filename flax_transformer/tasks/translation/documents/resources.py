"""Messages by key: JSON, Java's properties, and Fluent. Their values are translated."""

import json
import re
from collections.abc import Callable
from typing import Any

from flax_transformer.common.errors import UserError

from .document import Document, Place, Unit
from .markup import Token
from .messages import message

_JSON = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*:)?|[{}\[\]]', re.S)
_ABOUT_MESSAGES = re.compile(r'"(?:message|defaultMessage)"\s*:')  # of browser extensions, and FormatJS
_ABOUT = ('@', '$', 'description', 'placeholders')
_PROPERTY = re.compile(
    r'^[ \t\f]*(?![#!\s])(?:[^\\\s=:]|\\(?:\r\n|.))+[ \t\f]*[=:]?[ \t\f]*((?:[^\\\r\n]|\\(?:\r\n|.))*)', re.M | re.S
)
# A value goes on in lines that begin with a space, up to an attribute or a variant.
_FLUENT = re.compile(
    r'^(?:-?[A-Za-z][\w-]*[ ]*=|[ ]+\.(?!accesskey\b)[A-Za-z][\w-]*[ ]*=|[ ]*\*?\[[^\]\n]*\])[ ]*'
    r'((?:[^\n{]|\{[^{}\n]*\}|\{\{[^{}\n]*\}\})*(?:\n(?:[ ]*\n)*[ ]+(?![.\[*}\s])(?:[^\n{]|\{[^{}\n]*\})+(?=\n|\Z))*)',
    re.M,
)


def _unit(match: re.Match[str], encode: Callable[[str], str], **reading: Any) -> Unit:
    parts, finish = message(match[1], encode, **reading)
    return Unit(parts, [Place(*match.span(1), finish)])


def read_json(text: str, place: str) -> Document:
    """Strings that are values; what belongs to a key with @, as in ARB, or $, or describes a message, is kept."""
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(
            f'{place}: got no JSON ({error}); expected keys and texts, or lines by --input-format'
        ) from None

    def encode(new: str) -> str:
        return json.dumps(new, ensure_ascii='\\u' in text and text.isascii())[1:-1]

    keys_kept = _ABOUT if _ABOUT_MESSAGES.search(text) else ('@', '$')
    units = []
    depth = 0
    kept = None  # the depth at which a key is kept
    for match in _JSON.finditer(text):
        if match[0] in '{[':
            depth += 1
        elif match[0] in '}]':
            depth -= 1
        elif match[2]:
            if kept is None or depth <= kept:
                kept = depth if match[1].startswith(keys_kept) else None
        elif kept is None:
            units.append(_unit(match, encode))
    return Document(text, units)


def read_properties(text: str, place: str) -> Document:
    """Java reads them as UTF-8 or Latin-1, so that a file in ASCII remains one.

    MessageFormat, which has arguments, reads two apostrophes as one.
    """

    def encode(new: str) -> str:
        return json.dumps(new, ensure_ascii=text.isascii())[1:-1].replace('\\"', '"')

    def encode_format(new: str) -> str:
        return encode(new).replace("'", "''")

    def as_one(tokens: list[Token]) -> list[Token]:
        return [token._replace(value="'") if token.raw == "''" else token for token in tokens]

    units = []
    for match in _PROPERTY.finditer(text):
        is_format = re.search(r'\{\d', match[1])
        units.append(_unit(match, encode_format, retag=as_one) if is_format else _unit(match, encode))
    return Document(text, units)


def read_fluent(text: str, place: str) -> Document:
    return Document(text, [_unit(match, str) for match in _FLUENT.finditer(text) if match[1].strip()])
