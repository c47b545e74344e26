"""HTML and XML as what is kept as it stands and the texts to translate between, with their inline tags."""

import html
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import accumulate
from operator import methodcaller
from typing import NamedTuple
from xml.parsers import expat

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.translation.inference.literals import with_literals
from flax_transformer.tasks.translation.inference.marked import Marked, Span, ends_of
from flax_transformer.tasks.translation.inference.plain_tags import NO_LANGUAGE

Part = str | Marked  # kept as it stands, or translated

# A sentence of HTML ends at these tags.
_BLOCKS = """
address article aside base blockquote body br button canvas caption center col colgroup dd details dialog dir div dl dt
fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html iframe legend li link
main menu meta nav noscript object ol optgroup option p pre search section select source summary svg table
tbody td template textarea tfoot th thead title tr ul video
"""
_VOID = ['area', 'base', 'br', 'col', 'embed', 'hr', 'img', 'input', 'link', 'meta', 'param', 'source', 'track', 'wbr']
_LEFT_OPEN = 'body colgroup dd dt head html li optgroup option p rp rt tbody td tfoot th thead tr'  # may go unclosed
# An unclosed comment or section runs to the end, as in browsers.
_MARKUP = r"""
    \{%(?:(?!\{%).)*?%\} | \{\#(?:(?!\{\#).)*?\#\}    # templates
    | <!--.*?(?:-->|\Z) | <!\[CDATA\[.*?(?:\]\]>|\Z) | <\?.*?(?:\?>|\Z) | <![\w\[][^<>\[]*(?:>|\[.*?(?:\]\s*>|\Z))
    | <(?P<close>/)?(?P<name>[^\W\d][^\s<>/]*+)(?>=\s*(?:"[^"]*"|'[^']*')|[^<>])*+>    # quotes may hold a >
    | &lt;/?[A-Za-z][\w:.-]*(?:\s+[\w:-]+=(?:(?!&[lg]t;)[^<>])*+)?\s*/?&gt; | &\#?(?:\w[\w.-]*;|\w+)
"""
_XML = re.compile(_MARKUP, re.S | re.X)
HTML = re.compile(rf'<(?P<code>script|style)\b.*?(?:</(?P=code)\s*>|\Z) | {_MARKUP}', re.S | re.X | re.I)

# Tags of templates that say which text is shown, or how often.
BRANCH = re.compile(r'\{%[-+]?\s*(?:end|el|if|unless|for|case|when)')
_FORMULA = re.compile(r'\d+|[^\W_]|\w+[A-Z\d]\w*')  # before an index
_PART = 5  # tokens at most within a word
_LINE_ENDS = re.compile('(\r\n|\r|\n)')
_PARAGRAPHS = re.compile(r'((?:^[^\S\n]*+\S.*\n?)+)', re.M)
# Each value is looked through once, up to its own end: a tag may have thousands.
KEPT = re.compile(
    r"""\stranslate=["']?no\b|\sclass=(?:"[^">]*?|'[^'>]*?|[^\s"'>]*?)\bnotranslate\b
    |\smtype=["']protected\b""",
    re.I | re.X,
)


class Token(NamedTuple):
    kind: str  # open, close, void, text, literal, choice (of texts), or other: comments, declarations, instructions
    raw: str
    name: str = ''
    value: str = ''  # what a text means
    written: str = ''  # how a translation writes it; '': as it stands


class Tags(NamedTuple):
    """Names of tags, and what else ends a sentence, as in DeepL's API."""

    ignored: Collection[str] = ()  # what is in them is not translated
    splitting: Collection[str] = ()  # a sentence ends at them
    non_splitting: Collection[str] = ()  # and not at these
    outline: bool = True  # of XML: it also ends at elements without text of their own
    line_ends: bool = False  # and at the end of a line


NO_TAGS = Tags()


def split_lines(text: str) -> list[Part]:
    """The lines of text without markup, and between them line ends, blanks around lines and blank lines."""
    return _trimmed(_LINE_ENDS.split(text), Marked)


def split_paragraphs(text: str) -> list[Part]:
    """As `split_lines`, but a sentence goes on in the next line, unless that is blank."""
    return _trimmed(_PARAGRAPHS.split(text), lambda raw: Marked(' '.join(map(str.strip, raw.splitlines())), raw=raw))


def _trimmed(pieces: list[str], mark: Callable[[str], Marked]) -> list[Part]:
    parts: list[Part] = []
    for piece in pieces:
        raw = piece.strip()
        before, _, after = piece.partition(raw or ' ')
        parts += [before, mark(raw), after] if raw else [piece]
    return parts


def split_html(text: str, tags: Tags = NO_TAGS) -> list[Part]:
    """A sentence ends at blocks; comments, code and elements with translate="no" are kept."""
    return html_parts(html_tokens(text), tags)


def html_parts(
    tokens: Sequence[Token], tags: Tags = NO_TAGS, attributes: Callable[[Token], list[Part]] | None = None
) -> list[Part]:
    """As `split_html`, of tokens; `attributes` are the parts of a tag."""
    blocks = {*_BLOCKS.split(), *tags.splitting} - {*tags.non_splitting}
    is_split = [token.name in blocks or BRANCH.match(token.raw) is not None for token in tokens]
    return split_tokens(*_ended(tokens, is_split, tags), escape_of(tokens), [*NO_LANGUAGE, *tags.ignored], attributes)


def split_xml(text: str, tags: Tags = NO_TAGS, place: str = 'XML') -> list[Part]:
    """The parts of well-formed XML, which need not have a single root.

    What is in an element with text of its own is a sentence, unless tags split it.
    """
    tokens = xml_tokens(text, place)
    splits = {*tags.splitting} - {*tags.non_splitting}
    is_split = _outline(tokens, tags.non_splitting) if tags.outline else [False] * len(tokens)
    is_split = [splits_here or token.name in splits for token, splits_here in zip(tokens, is_split, strict=True)]
    return split_tokens(*_ended(tokens, is_split, tags), escape_of(tokens), tags.ignored)


def split_tokens(
    tokens: Sequence[Token],
    is_split: Sequence[bool],
    escape: Callable[[str], str] = str,
    ignored: Collection[str] = (),
    attributes: Callable[[Token], list[Part]] | None = None,
    family: str = '',
) -> list[Part]:
    """The parts of a text, which joined are the text; `is_split` says whether a sentence ends at a token.

    `family` is that of its placeholders, if it is a message of a program.
    """
    attributes = attributes or (lambda token: [token.raw])
    parts: list[Part] = []
    sentence: list[Token] = []
    number = 0
    ends = ends_of(tokens)
    closing = {end - 1 for end in ends.values()}
    have_words = (token.kind == 'text' and re.search(r'\w', token.value) is not None for token in tokens)
    words_before = list(accumulate(have_words, initial=0))
    while number < len(tokens):
        token = tokens[number]
        splits = is_split[number]
        end = ends.get(number)
        number += 1
        if end:
            stays = token.name in ignored or KEPT.search(token.raw)
            # A link on a sign, or an anchor, is no text.
            is_blank = not splits and words_before[end] == words_before[number]
            if stays or is_blank:
                inner = tokens[number - 1 : end]
                token = Token('literal' if stays else 'void', ''.join(part.raw for part in inner), token.name)
                number = end
        elif token.name.startswith('&') and number - 1 not in closing:
            token = token._replace(kind='literal')  # an escaped tag on its own
        if splits:
            parts += [*_sentence(sentence, escape, attributes, family), *attributes(token)]
            sentence = []
        else:
            sentence.append(token)
    return [*parts, *_sentence(sentence, escape, attributes, family)]


def marked(text: str, escape: Callable[[str], str], raw: str, spans: Sequence[Span] = (), family: str = '') -> Marked:
    """A text that is translated, with its literals; `raw` is how it stands in its file."""
    return with_literals(Marked(text, tuple(spans), escape, raw, family))


def escape_of(tokens: Sequence[Token]) -> Callable[[str], str]:
    """Writes text as markup, and letters as their author spelled them."""
    spelled = {token.value: token.raw for token in tokens if token.kind == 'text' and token.raw != token.value}
    letters = {value: raw for value, raw in spelled.items() if len(value) == 1 and not value.isascii()}
    return methodcaller('translate', str.maketrans({'&': '&amp;', '<': '&lt;', '>': '&gt;'} | letters))


def _sentence(
    tokens: Sequence[Token], escape: Callable[[str], str], attributes: Callable[[Token], list[Part]], family: str
) -> Iterator[Part]:
    """Yields a sentence and the white space around it; without letters, what stands there."""
    if not any(token.kind == 'text' and any(map(str.isalpha, token.value)) for token in tokens):
        for token in tokens:
            yield from [token.raw] if token.kind in ('text', 'literal') else attributes(token)
        return
    tokens = _with_parts_of_words(tokens)
    # Blanks, empty tags and elements at both edges stay there.
    before: list[Part] = []
    after: list[Part] = []  # from the end
    start = 0
    stop = len(tokens)
    ends = ends_of(tokens)
    while True:
        first = tokens[start]
        last = tokens[stop - 1]
        if _is_empty(first):
            before += attributes(first)
            start += 1
        elif _is_empty(last):
            after += reversed(attributes(last))
            stop -= 1
        elif ends.get(start) == stop:
            before += attributes(first)
            after.append(last.raw)
            start += 1
            stop -= 1
        else:
            break
    tokens = tokens[start:stop]
    whole = ''.join(token.raw for token in tokens)
    rest = whole.lstrip() if first.kind == 'text' else whole
    raw = rest.rstrip() if last.kind == 'text' else rest
    text = ''
    spans = []
    for token in tokens:
        # A space after a space, or at the beginning, is no part of the text.
        is_edge = token.raw.startswith('&') and token.value.isspace() and not text[-1:].strip()
        if token.kind == 'text' and not is_edge:
            value = re.sub(r'[ \t\r\n\f]+', ' ', token.value)
            value = value.lstrip() if token is first else value
            text += value.rstrip() if token is last else value
        elif token.kind in ('literal', 'choice'):
            inner = attributes(token) if token.kind == 'choice' else ()
            spans.append(Span(len(text), len(text) + 1, 'literal', token.raw, '', tuple(inner)))
            text += '\ufffc'
        else:
            kind = token.kind if token.kind in ('open', 'close') else 'void'
            inner = attributes(token)
            inner = tuple(inner) if len(inner) > 1 else ()
            spans.append(Span(len(text), len(text), kind, token.written or token.raw, token.name, inner))
    yield from [*before, whole[: len(whole) - len(rest)]]
    yield marked(text, escape, raw, spans, family)
    yield from [rest[len(raw) :], *reversed(after)]


def _is_empty(token: Token) -> bool:
    return token.kind in ('void', 'other') or (token.kind == 'text' and token.value.isspace())


def _with_parts_of_words(tokens: Sequence[Token]) -> list[Token]:
    """The tokens; an index, and what has no letters, after a word is one with its tags, within a word all of it."""
    tokens = list(tokens)
    ends = ends_of(tokens)
    joined: list[Token] = []
    number = 0
    while number < len(tokens):
        token = tokens[number]
        end = ends.get(number, 0)
        inner = tokens[number:end] if end <= number + _PART else []
        raw = ''.join(part.raw for part in inner)
        text = ''.join(part.value for part in inner if part.kind == 'text').strip()
        has_letters = any(map(str.isalpha, text))
        is_index = token.name in ('sub', 'sup')
        last = joined[-1] if joined else Token('text', '', '', ' ')
        head = re.search(r'(\w*)[.,:;!?"”’)\]]*$', last.value[-99:])
        is_before = last.value[-1:].isspace() and not has_letters and _begins_word(tokens, end)
        is_after = (is_index or not has_letters) and (head[0] or last.name == 'word')
        if not text or not (is_before or is_after):
            joined.append(token)
            number += 1
            continue
        number = end
        following = tokens[end] if end < len(tokens) else Token('other', '')
        # Letters that are spelled as &eacute; are no part of it.
        tail = re.match(r'(?:[^\W\d_]\w*)?', following.value)[0] if following.raw == following.value else ''
        is_word = head[0] and head[1] == head[0] and last.raw.endswith(head[0])
        is_formula = is_word and (tail or (is_index and _FORMULA.fullmatch(head[1])))
        if last.name == 'word':
            joined[-1] = last._replace(raw=last.raw + raw + tail)
        elif is_formula:
            joined[-1] = last._replace(raw=last.raw.removesuffix(head[0]), value=last.value.removesuffix(head[0]))
            joined.append(Token('literal', head[0] + raw + tail, 'word'))
        else:
            joined.append(Token('void', raw, token.name))
            continue
        if tail:
            tokens[end] = following._replace(raw=following.raw[len(tail) :], value=following.value[len(tail) :])
            number += not tokens[end].raw
    return [token for token in joined if token.raw]


def _begins_word(tokens: Sequence[Token], number: int) -> bool:
    """Whether a letter follows, perhaps after a tag."""
    following = [token.value for token in tokens[number : number + 2] if token.kind in ('text', 'open')]
    return ''.join(following)[:1].isalpha()


def tokens_of(text: str, pattern: re.Pattern[str]) -> list[Token]:
    """What a pattern finds in a text, by its groups `close` and `name` or as entities, and what is between."""
    tokens = []
    done = 0
    for match in pattern.finditer(text):
        raw = match[0]
        before = text[done : match.start()]
        done = match.end()
        value = ''
        kind = 'open'
        name = match['name'] or ''
        if raw.startswith('&lt;') and raw.endswith('&gt;'):
            kind = 'close' if raw[4] == '/' else 'open'
            name = '&' + re.match(r'[\w:.-]*', raw[4:].lstrip('/'))[0]
        elif raw.startswith('&'):
            value = html.unescape(raw)
            # Symbols such as &copy; and the document's own entities stay.
            is_symbol = unicodedata.category(value[0])[0] == 'S' and value not in '<>'
            kind = 'other' if is_symbol or (value == raw and raw.endswith(';')) else 'text'
        elif match['close']:
            kind = 'close'
        elif not match['name'] or raw.endswith('/>'):
            kind = 'void' if match['name'] else 'other'
        tokens += [Token('text', before, '', before), Token(kind, raw, name, value)]
    return [token for token in [*tokens, Token('text', text[done:], '', text[done:])] if token.raw]


def html_tokens(text: str) -> list[Token]:
    """The tokens of HTML, much as browsers read it: nothing is an error."""
    tokens = []
    for token in tokens_of(text, HTML):
        name = token.name.lower()
        is_void = token.kind == 'open' and name in _VOID
        tokens.append(token._replace(name=name, kind='void' if is_void else token.kind))
    return tokens


def unclosed(tokens: Sequence[Token], place: str) -> list[str]:
    """Messages about the tags of HTML that lack their other half."""
    ends = ends_of(tokens)
    paired = {*ends, *(end - 1 for end in ends.values())}
    faults = []
    line = 1
    for number, token in enumerate(tokens):
        is_tag = token.kind in ('open', 'close') and token.raw.startswith('<')
        if is_tag and number not in paired and token.name not in _LEFT_OPEN.split():
            pair = f'got <{token.name}>, expected </{token.name}> after it'
            if token.kind == 'close':
                pair = f'got </{token.name}>, expected <{token.name}> before it'
            faults.append(f'{place}, line {line}: {pair}')
        line += token.raw.count('\n')
    return faults


def xml_tokens(text: str, place: str = 'XML') -> list[Token]:
    """The tokens of XML. Raises UserError for text that is not well-formed."""
    is_whole = text.lstrip().startswith(('<?xml', '<!DOCTYPE'))
    try:
        expat.ParserCreate('utf-8').Parse((text if is_whole else f'<_>{text}</_>').encode(), True)
    except expat.ExpatError as error:
        why = expat.ErrorString(error.code)
        raise UserError(f'{place}, line {error.lineno}: {why}; expected well-formed XML') from None
    return tokens_of(text, _XML)


def _ended(tokens: Sequence[Token], is_split: Sequence[bool], tags: Tags) -> tuple[list[Token], list[bool]]:
    """The tokens, and where sentences end; if the tags say so, also at the line ends of texts."""
    out = []
    ends = []
    for token, splits in zip(tokens, is_split, strict=True):
        lines = _LINE_ENDS.split(token.raw) if tags.line_ends and token.kind == 'text' else []
        if len(lines) > 1:
            out += [token._replace(raw=line, value=line) for line in lines]
            ends += [number % 2 == 1 for number in range(len(lines))]
        else:
            out.append(token)
            ends.append(splits)
    return out, ends


def _outline(tokens: Sequence[Token], inline: Collection[str]) -> list[bool]:
    """Whether a sentence ends at each token: at the tags around elements with text of their own."""
    is_split = [False] * len(tokens)
    ends = ends_of(tokens)
    waiting = [(0, len(tokens))]  # what is in elements without such text around them
    for number, stop in waiting:
        children = []
        while number < stop:
            children.append(number)
            number = ends.get(number, number + 1)
        texts = (tokens[child].value for child in children if tokens[child].kind == 'text')
        if any(text.strip() or '\n' not in text for text in texts):
            continue
        for child in children:
            if tokens[child].kind in ('open', 'void') and tokens[child].name not in inline:
                end = ends.get(child, child + 1)
                is_split[child] = is_split[end - 1] = True
                waiting.append((child + 1, end - 1))
    return is_split
