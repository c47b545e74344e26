"""HTML and XML as what is kept as it stands and the texts to translate between, with their inline tags."""

import html
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any, NamedTuple
from xml.parsers import expat

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.translation.documents.literals import with_literals
from flax_transformer.tasks.translation.documents.marked import Marked, Span

Part = str | Marked  # kept as it stands, or translated

# A sentence of HTML ends at these tags.
_BLOCKS = """
address article aside base blockquote body br button canvas caption center col colgroup dd details dialog dir div dl dt
fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html iframe legend li link
main menu meta nav noscript object ol optgroup option p pre script search section select source style summary svg table
tbody td template textarea tfoot th thead title tr ul video
"""
_VOID = 'area base br col embed hr img input link meta param source track wbr'
_LEFT_OPEN = 'body colgroup dd dt head html li optgroup option p rp rt tbody td tfoot th thead tr'  # by many
_CODE = 'code kbd math pre samp script style svg textarea var'  # what is in them is no language


class Token(NamedTuple):
    kind: str  # open, close, void, text, or other: comments, declarations, instructions
    raw: str
    name: str = ''
    value: Any = None  # the attributes of a tag; what a text means


def split_html(
    text: str,
    ignore_tags: Collection[str] = (),
    splitting_tags: Collection[str] = (),
    non_splitting_tags: Collection[str] = (),
) -> list[Part]:
    """The parts of HTML. A sentence ends at blocks and at tags that split; what is in tags to ignore is not translated.

    Comments, code and elements with translate="no" are kept.
    """
    tokens = html_tokens(text)
    blocks = {*_BLOCKS.split(), *splitting_tags} - {*non_splitting_tags}
    return split_tokens(tokens, [token.name in blocks for token in tokens], [*_CODE.split(), *ignore_tags])


def split_xml(
    text: str,
    ignore_tags: Collection[str] = (),
    splitting_tags: Collection[str] = (),
    non_splitting_tags: Collection[str] = (),
    place: str = 'XML',
) -> list[Part]:
    """The parts of XML, which need not have a single root.

    Without splitting_tags, what is in an element with text of its own is a sentence, or blanks between its elements.
    Raises UserError, with the line, for text that is not well-formed.
    """
    tokens = xml_tokens(text, place)
    splits = {*splitting_tags} - {*non_splitting_tags}
    is_split = [token.name in splits for token in tokens] if splits else _outline(tokens, non_splitting_tags)
    return split_tokens(tokens, is_split, ignore_tags)


def split_tokens(tokens: Sequence[Token], is_split: Sequence[bool], ignored: Collection[str] = ()) -> list[Part]:
    """The parts of a text, which joined are the text; `is_split` says of each token whether a sentence ends there."""
    parts: list[Part] = []
    waiting: list[Token] = []  # of a sentence
    number = 0
    while number < len(tokens):
        token, splits = tokens[number], is_split[number]
        number += 1
        is_kept = token.kind == 'open' and (token.name in ignored or _is_kept(token))
        if is_kept and (end := end_of(tokens, number)):
            token = Token('literal', ''.join(each.raw for each in tokens[number - 1 : end]), token.name)
            number = end
        if splits:
            parts += [*_sentence(waiting), token.raw]
            waiting = []
        else:
            waiting.append(token)
    return [*parts, *_sentence(waiting)]


def end_of(tokens: Sequence[Token], number: int) -> int:
    """After which token the element ends whose opening tag is the one before `number`; 0: nowhere."""
    name, depth = tokens[number - 1].name, 1
    for i in range(number, len(tokens)):
        depth += (tokens[i].name == name) * ((tokens[i].kind == 'open') - (tokens[i].kind == 'close'))
        if not depth:
            return i + 1
    return 0


def _is_kept(token: Token) -> bool:
    return token.value.get('translate') == 'no' or 'notranslate' in (token.value.get('class') or '').split()


def _sentence(tokens: Sequence[Token]) -> Iterator[Part]:
    """Yields a sentence, and the white space around it; what has no letters as it stands."""
    tokens = list(tokens)
    if not any(token.kind == 'text' and any(map(str.isalpha, token.value)) for token in tokens):
        yield ''.join(token.raw for token in tokens)
        return
    first, last = tokens[0], tokens[-1]
    yield first.raw[: len(first.raw) - len(first.raw.lstrip())] if first.kind == 'text' else ''
    text, spans, spelled = '', [], {'&': '&amp;', '<': '&lt;', '>': '&gt;'}
    for token in tokens:
        if token.kind == 'text':
            if token.raw != token.value and len(token.value) == 1 and token.value not in ' \t\n\'"':
                spelled[token.value] = token.raw
            value = re.sub(r'[ \t\r\n\f]+', ' ', token.value)
            value = value.lstrip() if token is first else value
            text += value.rstrip() if token is last else value
        elif token.kind == 'literal':
            spans.append(Span(len(text), len(text) + 1, 'literal', token.raw))
            text += '\ufffc'
        else:
            kind = token.kind if token.kind in ('open', 'close') else 'void'
            spans.append(Span(len(text), len(text), kind, token.raw, token.name))
    table = str.maketrans(spelled)
    yield with_literals(Marked(text, tuple(spans), lambda text: text.translate(table)))
    yield last.raw[len(last.raw.rstrip()) :] if last.kind == 'text' else ''


def html_tokens(text: str) -> list[Token]:
    """The tokens of HTML, read as browsers do: nothing is an error."""
    out = []
    for (start, kind, name, value), (end, *_) in pairwise([*_Html(text).found, (len(text),)]):
        raw = text[start:end]
        if kind == 'text':
            value = html.unescape(raw) if raw.startswith('&') else raw
            if raw.startswith('&') and not (value.isalnum() or value.isspace() or value in '&<>"\''):
                kind = 'other'  # a sign that its author spelled, such as &copy;
        out.append(Token(kind, raw, name, value))
    return out


def unclosed(tokens: Sequence[Token], place: str) -> list[str]:
    """Messages about the tags of HTML that lack their other half."""
    waiting: list[tuple[str, int]] = []
    faults, line, left_open = [], 1, _LEFT_OPEN.split()
    for token in [*tokens, Token('close', '', '')]:
        if token.kind == 'open' and token.name not in left_open:
            waiting.append((token.name, line))
        elif token.kind == 'close' and token.name not in left_open:
            names = [name for name, _ in waiting]
            if token.name and token.name not in names:
                faults.append(f'{place}, line {line}: got </{token.name}>, expected <{token.name}> before it')
            while waiting and (not token.name or token.name in names):
                name, begin = waiting.pop()
                names.pop()
                if name == token.name:
                    break
                faults.append(f'{place}, line {begin}: got <{name}>, expected </{name}> after it')
        line += token.raw.count('\n')
    return faults


class _Html(HTMLParser):
    """Where each token begins, its kind, name and attributes."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.found: list[tuple[int, str, str, Any]] = []
        self._begins = [0, *(match.end() for match in re.finditer('\n', text))]
        self.feed(text)
        self.close()

    def _add(self, kind: str, name: str = '', value: Any = None) -> None:
        line, column = self.getpos()
        self.found.append((self._begins[line - 1] + column, kind, name, value))

    def handle_starttag(self, tag: str, attrs: Iterable[tuple[str, str | None]]) -> None:
        self._add('void' if tag in _VOID.split() else 'open', tag, dict(attrs))

    def handle_startendtag(self, tag: str, attrs: Iterable[tuple[str, str | None]]) -> None:
        self._add('void', tag, dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        self._add('close', tag)

    def handle_data(self, data: str) -> None:
        self._add('text')

    def handle_comment(self, data: str) -> None:
        self._add('other')

    handle_charref = handle_entityref = handle_data
    handle_decl = handle_pi = unknown_decl = handle_comment


def xml_tokens(text: str, place: str = 'XML') -> list[Token]:
    """The tokens of a document or a part of one. Raises UserError for text that is not well-formed."""
    is_whole = text.lstrip().startswith(('<?xml', '<!DOCTYPE'))
    data = text.encode() if is_whole else b'<_>' + text.encode() + b'</_>'
    parser = expat.ParserCreate('utf-8')
    found: list[tuple[int, str, str, Any]] = []
    is_cdata = False

    def add(kind: str, name: str = '', value: Any = None) -> None:
        found.append((parser.CurrentByteIndex, kind, name, value))

    def cdata(starts: bool) -> None:
        nonlocal is_cdata
        is_cdata = starts
        add('other')

    parser.StartElementHandler = lambda name, attributes: add('open', name, attributes)
    parser.EndElementHandler = lambda name: add('close', name)
    parser.CharacterDataHandler = lambda value: add('other' if is_cdata else 'text', '', value)
    parser.StartCdataSectionHandler, parser.EndCdataSectionHandler = lambda: cdata(True), lambda: cdata(False)
    parser.DefaultHandler = lambda value: add('other')
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise UserError(
            f'{place}, line {error.lineno}: {expat.ErrorString(error.code)}; expected well-formed XML'
        ) from None
    tokens: list[Token] = []
    for (start, kind, name, value), (end, *_) in pairwise([*found, (len(data),)]):
        raw = data[start:end].decode()
        if kind == 'text' and tokens and raw == value and tokens[-1].raw == tokens[-1].value:  # the parser cuts text
            tokens[-1] = tokens[-1]._replace(raw=tokens[-1].raw + raw, value=tokens[-1].value + raw)
        elif raw:  # nothing is left for the end of <x/>
            tokens.append(Token('void' if kind == 'open' and raw.endswith('/>') else kind, raw, name, value))
    return tokens if is_whole else tokens[1:-1]


def _outline(tokens: Sequence[Token], inline: Collection[str]) -> list[bool]:
    """Whether a sentence ends at each token: at the tags around elements with text of their own."""
    has_text, parents, owners, path = [False], [0], [], [0]  # elements by number, the one around each token
    for token in tokens:
        if token.kind == 'close' and len(path) > 1:
            path.pop()
        owners.append(path[-1])
        if token.kind == 'open':
            parents.append(path[-1])
            path.append(len(has_text))
            has_text.append(token.name in inline)
        elif token.kind == 'text' and (token.value.strip() or '\n' not in token.value):
            has_text[path[-1]] = True
    for number, parent in enumerate(parents):
        has_text[number] |= has_text[parent]
    is_tag = lambda token: token.kind in ('open', 'close', 'void') and token.name not in inline
    return [is_tag(token) and not has_text[owner] for token, owner in zip(tokens, owners, strict=True)]
