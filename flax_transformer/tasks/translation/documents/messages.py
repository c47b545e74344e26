"""Messages of programs, as PO, JSON and the like have them: with tags, escapes and placeholders."""

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from flax_transformer.tasks.translation.inference.placeholders import family_of, numbered, unnumbered

from .markup import Part, Token, escape_of, split_tokens, tokens_of

# Comments and sections, tags, commands of subtitles, entities, escapes, line ends, a speaker's dash, and tabs.
_TOKEN = re.compile(
    r"""
    </(?P<again>[ibu])>[ ]*\r?\n<(?P=again)>(?!-) | <!--.*?(?:-->|\Z) | <!\[CDATA\[.*?(?:\]\]>|\Z) | <\?.*?(?:\?>|\Z)
    | <(?P<close>/)?(?P<name>[A-Za-z0-9][\w.:-]*)(?:[\s/](?:"[^"<]*"|'[^'<]*'|[^<>])*+)?> | \{\\[^{}]*\}
    | '' | &lt;/?[A-Za-z][^<>&]*&gt; | &(?:\#\w+|\w+);
    | (?:\\u[dD][89abAB]\w\w)?\\(?:u[0-9A-Fa-f]{4}|[0-7]{1,3}|x[0-9A-Fa-f]+|\r?\n[ \t]*|.)
    | (?:\A|(?<![^\S\n])[^\S\n]*\n\s*)[-–—](?![\d-])\s* | (?<![^\S\n])[^\S\n]*\n\s* | \t
    """,
    re.S | re.X,
)
_SPLITTING = 'br hr p div ul ol li h1 h2 h3 h4 table tr th td v'  # blocks of HTML, and a voice of WebVTT
_NO_LANGUAGE = ('code', 'kbd', 'pre', 'samp')

# Choices of ICU's MessageFormat: {count, plural, one {# file} other {# files}}.
_CHOICE = re.compile(r'\{\s*[\w.]+\s*,\s*(?:plural|select|selectordinal)\s*,')
_BRANCH = re.compile(r'\s*(?:offset:\s*\d+\s+)?(?:=\d+|[\w-]+)\s*\{')
_DEEPEST = 10  # choices within each other


def message_parts(
    raw: str,
    family: str = '',
    encode: Callable[[str], str] | None = None,
    retag: Callable[[list[Token]], list[Token]] | None = None,
    ignored: Sequence[str] = _NO_LANGUAGE,
    depth: int = 0,
) -> list[Part]:
    """The parts of a message with placeholders of a family, or none, that stands in as many choices as `depth`.

    `encode` writes text as it stands in the file; without it, the message is markup. `retag` may change its tokens, and
    elements with the names `ignored` are kept.
    """

    def parts_of(branch: str) -> list[Part]:
        return message_parts(branch, 'plural', encode, retag, ignored, depth + 1)

    has_choices = family in ('message', 'plural') and depth < _DEEPEST
    choices = _choices(raw, parts_of) if has_choices else []
    parts_by_choice = {raw[start:end]: parts for start, end, parts in choices}
    tokens: list[Token] = []
    done = 0
    for start, end in [*(choice[:2] for choice in choices), (len(raw), len(raw))]:
        tokens += [_with_value(token, is_markup=not encode) for token in tokens_of(raw[done:start], _TOKEN)]
        tokens += [Token('choice', raw[start:end])] if start < end else []
        done = end
    tokens = retag(tokens) if retag else tokens
    is_split = [token.kind == 'break' or token.name in _SPLITTING.split() for token in tokens]

    entities = [token for token in tokens if token.kind == 'text' and token.raw[0] == '&' and token.value != token.raw]
    as_markup = escape_of(entities) if entities or not encode else str

    def escape(text: str) -> str:
        text = as_markup(text)
        return encode(text) if encode else text

    def inner(token: Token) -> list[Part]:
        return parts_by_choice.get(token.raw, [token.raw])

    return split_tokens(tokens, is_split, escape, ignored, inner, family)


def _with_value(token: Token, *, is_markup: bool) -> Token:
    """A token of `_TOKEN` with what it means here, and of the kind `break` if a sentence ends at it."""
    raw = token.raw
    if token.kind != 'other':
        return token
    if raw.startswith('</'):
        return Token('text', raw, '', ' ')  # the tag goes on in the next line
    if raw[0].isspace() or raw[0] in '-–—':
        # A sentence goes on in the next line, unless somebody else speaks.
        goes_on = raw.isspace() and raw.count('\n') == 1
        return Token('text', raw, '', ' ') if goes_on else Token('break', raw)
    if raw[0] == '\\':
        value = raw if is_markup and raw != '\\n' else _decoded(raw)
        if value is None:
            return token._replace(kind='void')
        return Token('break' if value.isspace() else 'text', raw, '', value)
    if raw == "''":
        return Token('text', raw, '', raw)
    return Token('break', raw) if raw.startswith('{\\a') else token  # where a subtitle stands


def message(
    raw: str, encode: Callable[[str], str] | None, flags: Sequence[str] = (), **reading: Any
) -> tuple[list[Part], Callable[[str], str | None]]:
    """The parts of a message, and what gives the texts of these parts, joined, the form that they have in the file.

    `flags` are those of PO; the others are as in `message_parts`.
    """
    family = family_of(flags)
    parts = message_parts(numbered(raw, family), family, encode, **reading)
    return parts, partial(unnumbered, source=raw, flags=flags)


def as_json(text: str) -> str:
    """The text within quotes of JSON, or of PO."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _decoded(escape: str) -> str | None:
    """What an escape means; an unknown one None."""
    if escape[1:].isspace():
        return ''
    try:
        return json.loads(f'"{escape}"')
    except ValueError:
        return None if escape[1].isalnum() else escape[1:]


def _choices(raw: str, parts_of: Callable[[str], list[Part]]) -> list[tuple[int, int, list[Part]]]:
    """The start and end of the choices in a message, and their parts: `parts_of` each branch, and what is around."""
    choices = []
    done = 0
    for match in _CHOICE.finditer(raw):
        if match.start() < done:
            continue
        stop = _closing(raw, match.start() + 1)
        if stop == len(raw):  # what is in a brace that stays open is no choice
            break
        branches = []
        at = match.end()
        while branch := _BRANCH.match(raw, at, stop):
            at = _closing(raw, branch.end()) + 1
            branches.append((branch[0], raw[branch.end() : at - 1]))
        if not raw[at:stop].strip():
            done = stop + 1
            parts: list[Part] = [match[0]]
            for opening, inner in branches:
                parts += [opening, *parts_of(inner), '}']
            choices.append((match.start(), done, [*parts, raw[at:done]]))
    return choices


def _closing(text: str, at: int) -> int:
    """Where the brace that was opened before `at` is closed; the text's end if nowhere."""
    depth = 1
    for match in re.compile('[{}]').finditer(text, at):
        depth += 1 if match[0] == '{' else -1
        if not depth:
            return match.start()
    return len(text)
