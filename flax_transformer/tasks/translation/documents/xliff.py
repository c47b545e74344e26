"""XLIFF 1.2 and 2.0."""

import re

from flax_transformer.common.errors import UserError

from .document import Document
from .markup import KEPT, Part, escape_of, split_tokens, xml_tokens

# What has sources, a source and its target, and the tags around markup of another format.
_UNIT = re.compile(r'(?P<opening><(trans-unit|unit)\b[^>]*>).*?</\2\s*>', re.S)
_SOURCE = re.compile(
    r'<source\b[^>]*>(?P<text>.*?)</source\s*>(?:\s*<seg-source\b.*?</seg-source\s*>)?'
    r'(?P<after>(?:(?P<space>\s*)<target(?P<attributes>[^>]*?)(?:/>|>(?P<target>.*?)</target\s*>))?)',
    re.S,
)
_CODES = ('bpt', 'ept', 'it', 'ph')


def read_xliff(text: str, place: str) -> Document:
    return Document([_split_xliff(text, place)])


def _split_xliff(text: str, place: str) -> list[Part]:
    """The parts of XLIFF 1.2 or 2.0: a source without a target, or with an empty one, gets its translation there."""
    if next((token.name for token in xml_tokens(text, place) if token.kind == 'open'), '') != 'xliff':
        raise UserError(f'{place}: got XML of another kind, expected <xliff> around everything')
    parts: list[Part] = []
    done = 0
    for unit in _UNIT.finditer(text):
        sources = [] if KEPT.search(unit['opening']) else _SOURCE.finditer(text, *unit.span())
        for source in sources:
            if (source['target'] or '').strip():
                continue
            tokens = xml_tokens(source['text'], place)
            opening = f'{source["space"] or ""}<target{source["attributes"] or ""}>'
            new = split_tokens(tokens, [False] * len(tokens), escape_of(tokens), _CODES)
            parts += [text[done : source.start('after')], opening, *new, '</target>']
            done = source.end()
    return [*parts, text[done:]]
