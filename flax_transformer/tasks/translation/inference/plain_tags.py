"""Tags that are written out in plain text, of HTML or Markdown's: they are put aside as those of documents are."""

import re
from collections.abc import Iterator, Sequence
from operator import attrgetter

from .marked import Span, pairs_apart

NO_LANGUAGE = ['code', 'kbd', 'math', 'pre', 'samp', 'svg', 'textarea', 'var']  # elements that are kept whole
WHOLE = rf'<(?:{"|".join(NO_LANGUAGE)}|script|style)\b[^<>]*>[^<]*</\w+>'
# Attributes have values, but for those of some elements.
TAG = (
    r"""</?[a-zA-Z][\w:-]*(?:\s+[\w:@.-]+=(?:"[^"]*"|'[^']*'|[^\s"'<>]+))*\s*/?>"""
    r'|<(?:input|button|option|select|video|audio|textarea|details)\s[^<>]*>'
)
_TAG = re.compile(TAG)
# Not all of HTML: people write "Enter <address> here".
BLOCK = re.compile(r'</?(?:p|div|li|[uo]l|t[dhr]|table|h\d|br|hr)\b', re.I)
_OPENS, _CLOSES = '"\'“„‘(«[', '"\'”“’)»]'
_VOID = re.compile('br|hr|img|input|wbr', re.I)
# Code comes first: what is in it is no tag.
_ADDRESS = r'(?:[^()\s]|\([^()\s]*\))+'
_LINK = re.compile(rf'`[^`]+`|(?P<open>!?\[)(?=[^\s\]])[^\[\]]+(?P<close>\]\({_ADDRESS}(?:[ ]"[^"]*")?\))')
_EMPHASIS = re.compile(
    r"""`[^`]+`|(?<![^\s("'„“‚‘«»:>—–-])(?P<open>\*{1,3}|~~)(?=[^\s*~])(?:(?!(?P=open)).)+(?<=\S)(?P<close>(?P=open))(?![\w*~])"""
)


def markdown_spans(text: str, taken: Sequence[tuple[int, int]] = ()) -> list[Span]:
    """The spans of the signs around links and around words that are stressed, in order, apart from those taken."""
    links = list(pairs_apart(taken, list(_pairs(_LINK, text, 'a'))))
    taken = sorted([*taken, *((span.start, span.end) for span in links)])
    stressed = pairs_apart(taken, list(_pairs(_EMPHASIS, text, 'em')))
    return sorted([*links, *stressed], key=attrgetter('start'))


def _pairs(pattern: re.Pattern[str], text: str, name: str) -> Iterator[list[Span]]:
    for match in pattern.finditer(text):
        if match['open']:
            yield [Span(*match.span(kind), kind, match[kind], name) for kind in ('open', 'close')]


def tag_span(text: str, start: int, end: int) -> Span | None:
    """The span of a tag from one character to another; None: a name, such as <Enter>, or a word of the sentence.

    A tag without a partner is a word, unless it parts blocks; so are two that stand as words do: "Write <b> before and
    </b> after it."
    """
    raw = text[start:end]
    if not _TAG.fullmatch(raw):
        return None
    closes, name = re.match(r'<(/?)([\w:-]+)', raw).groups()
    is_closed = raw.endswith('/>') and ('=' not in raw or raw[-3] in '"\' ')
    if is_closed or _VOID.fullmatch(name):
        return Span(start, end, 'void', raw)

    partner = re.compile(rf'<{"" if closes else "/"}{re.escape(name)}(?:\s[^<>]*)?>', re.I)
    other = partner.search(text, 0, start) if closes else partner.search(text, end)
    if other and not (_is_word(text, start, end) and _is_word(text, *other.span())):
        return Span(start, end, 'close' if closes else 'open', raw, name.lower())
    return Span(start, end, 'void', raw) if not other and BLOCK.match(raw) else None


def _is_word(text: str, start: int, end: int) -> bool:
    before = text[max(start - 1, 0) : start]
    after = text[end : end + 1]
    if before and after and before in _OPENS and after in _CLOSES:
        return True
    return before.isspace() and (not after or after.isspace() or after in ',.;:!?')
