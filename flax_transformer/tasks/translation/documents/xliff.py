"""XLIFF 1.2 and 2.x."""

import re
from collections.abc import Iterator
from functools import partial
from itertools import accumulate

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.translation.inference.marked import ends_of

from .document import Document, Edit, Place, Unit
from .markup import KEPT, Token, xml_tokens
from .messages import message

_CODES = ('it', 'ph', 'bpt', 'ept')  # around markup of another format
# Tags that are one half of a pair, in the standards and in Angular's files.
_OPENING = re.compile(r'<(?:\w+:)?(?:bx|sc|sm|bpt)\b|<[^>]*\sid="START_')
_CLOSING = re.compile(r'<(?:\w+:)?(?:ex|ec|em|ept)\b|<[^>]*\sid="CLOSE_')
_PAIR = re.compile(r'\s(?:rid|startRef)="([^"]*)"')
_ID = re.compile(r'\sid="(?:START_|CLOSE_)?([^"]*)"')
_IN_ORDER = re.compile(r'<[^<>]*\scanReorder="(?:no|firstNo)"[^<>]*>')
_LANGUAGE = re.compile(r'\s(?:target-language|trgLang)\s*=\s*["\']([^"\']*)')
_SEGMENT = re.compile(r'<(?:\w+:)?mrk\b[^>]*\smtype="seg"')
_STATE = re.compile(r'\s(?:state|subState)\s*=\s*(?:"[^"]*"|\'[^\']*\')')


class _Xliff:
    """The tags of a file, and where they and the elements are."""

    def __init__(self, text: str, place: str) -> None:
        tokens = xml_tokens(text, place)
        self.text = text
        self.root = next((number for number, token in enumerate(tokens) if token.kind == 'open'), 0)
        self.prefix, colon, name = tokens[self.root].name.rpartition(':')
        if name != 'xliff':
            raise UserError(f'{place}: got XML of another kind, expected <xliff> around everything')
        self.prefix += colon
        self.tokens = [token._replace(name=token.name.removeprefix(self.prefix)) for token in tokens]
        self.starts = list(accumulate((len(token.raw) for token in tokens), initial=0))
        self.ends = ends_of(tokens)
        self.is_2 = re.search(r'\sversion=["\']2', tokens[self.root].raw) is not None

    def children(self, number: int) -> dict[str, tuple[int, int]]:
        """The first and last tag, and the next, of each element in one, by name."""
        children = {}
        child = number + 1
        while child < self.ends[number] - 1:
            end = self.ends.get(child, child + 1)
            children.setdefault(self.tokens[child].name, (child, end))
            child = end
        return children

    def units(self) -> Iterator[Unit]:
        """Yields those of sources that are to be translated and have no target, or an empty one."""
        kept = 0  # before this token, nothing is translated
        preserved = 0  # and line ends are
        for number, end in sorted(self.ends.items()):
            token = self.tokens[number]
            if 'xml:space="preserve"' in token.raw:
                preserved = max(preserved, end)
            if number < kept or KEPT.search(token.raw):
                kept = max(kept, end)
            elif token.name == ('segment' if self.is_2 else 'trans-unit'):
                children = self.children(number)
                source, target = (children.get(name) for name in ('source', 'target'))
                if source and self.inner(source).strip() and not (target and self.inner(target).strip()):
                    yield self._unit(number, children, number < preserved)

    def inner(self, element: tuple[int, int]) -> str:
        first, end = element
        return self.text[self.starts[first + 1] : self.starts[end - 1]]

    def outer(self, element: tuple[int, int]) -> tuple[int, int]:
        first, end = element
        return self.starts[first], self.starts[end]

    def _unit(self, number: int, children: dict[str, tuple[int, int]], keeps_lines: bool) -> Unit:
        source = self.inner(children.get('seg-source', children['source']))
        start = self.outer(children['source'])[0]
        opening = f'<{self.prefix}target'
        if 'target' in children:
            place = self.outer(children['target'])
            opening = self.tokens[children['target'][0]].raw.rstrip('/> \t\r\n')
            before = ''
        else:
            end = self.outer(children.get('seg-source', children['source']))[1]
            place = (end, end)
            before = re.search(r'\s*\Z', self.text[:start])[0]
        if self.is_2:
            marks = [self._state(number, 'translated')]
            left = [self._state(number, 'initial', ' subState="mt:needs-review"')]
        else:
            opening = _STATE.sub('', opening)
            marks = []
            left = [Edit(*place, f'{before}{opening} state="needs-review-translation"/>')]
            opening += ' state="translated"'
        retag = partial(_retagged, keeps_lines=keeps_lines)
        parts, finish = message(source, None, retag=retag, ignored=_CODES)

        def finish_target(text: str) -> str | None:
            text = finish(text)
            if text is None or _IN_ORDER.findall(text) != _IN_ORDER.findall(source):
                return None
            return f'{before}{opening}>{text}</{self.prefix}target>'

        return Unit(parts, [Place(*place, finish_target)], start, marks, left)

    def _state(self, number: int, state: str, more: str = '') -> Edit:
        """Sets the state of a segment of 2.x."""
        opening = _STATE.sub('', self.tokens[number].raw).removesuffix('>')
        return Edit(self.starts[number], self.starts[number + 1], f'{opening} state="{state}"{more}>')


def read_xliff(text: str, place: str) -> Document:
    """A source without a target, or with an empty one, gets its translation there."""
    xliff = _Xliff(text, place)
    units = list(xliff.units())
    heads = [token.raw for token in xliff.tokens if token.kind == 'open' and token.name in ('xliff', 'file')]
    named = _LANGUAGE.findall(' '.join(heads))
    end = xliff.starts[xliff.root + 1] - 1
    is_unnamed = xliff.is_2 and units and not named
    return Document(text, units, languages=named, naming=[Edit(end, end, ' trgLang="{}"')] if is_unnamed else [])


def _retagged(tokens: list[Token], keeps_lines: bool) -> list[Token]:
    """The tokens as what they are here: code of half a tag is a tag, and a sentence ends with its segment."""
    retagged = []
    ends = ends_of(tokens)
    breaks: set[int] = set()
    done = 0
    for number, token in enumerate(tokens):
        end = ends.get(number, 0)
        if _SEGMENT.match(token.raw):
            breaks |= {number, end - 1}
        if number in breaks or (keeps_lines and token.raw.strip(' \t\r') == '\n'):
            token = token._replace(kind='break')
        elif end and token.name in _CODES:
            raw = ''.join(part.raw for part in tokens[number:end])
            if token.name in ('bpt', 'ept') or '&lt;' in raw:
                token = Token('void', raw, 'code')
        if number >= done:
            retagged.append(_as_pair(token))
            done = end if token.name == 'code' else 0
    return retagged


def _as_pair(token: Token) -> Token:
    """Tags that are halves of a pair as such, others that stand for something as literals."""
    if token.kind != 'void':
        return token
    match = _PAIR.search(token.raw) or _ID.search(token.raw)
    for kind, tags in (('open', _OPENING), ('close', _CLOSING)):
        if match and tags.match(token.raw):
            return token._replace(kind=kind, name=f'half {match[1]}')
    if token.name in ('x', 'ph'):
        return token._replace(kind='break' if 'ctype="lb"' in token.raw else 'literal')
    return token
