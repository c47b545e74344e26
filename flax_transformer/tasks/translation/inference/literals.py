"""What is no language within a text: addresses, numbers, identifiers, signs, unseen names, what a caller names."""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.tasks.translation.glossary import Glossary
from flax_transformer.tasks.translation.words import TrainingWords
from flax_transformer.text.languages import is_named, two_letters
from flax_transformer.text.tokenizer import UNSPACED, Tokenizer, as_text

from .enclosed import parentheses, quotations
from .marked import Marked, Span, apart, is_within, literal, pairs_apart, with_spans
from .names import Names
from .persons import persons, surnames
from .placeholders import placeholders
from .plain_tags import TAG, WHOLE, markdown_spans, tag_span
from .result import LINE_BREAKS
from .sentence_case import SentenceCase

_NUMBER = r'\d+(?:[.,:/\u00a0\u202f\u2019–-]\d+)*(?:,[-–—](?!\w))?'
_UNITS = (
    'km/h|m/s|kWh|[kMGT]i?B|[kMG]?Hz|[kMG]?bit/s|[kmµcd]?m[²³]?|[mµk]?g|[mcdh]?l|[mµn]?s|[kM]?W|[mk]?[VA]|[km]?[JΩ]|k?Pa|'
    'bar|dB|px|pt|min|h|°[CF]?|%|‰|€|\\$|£|¥|EUR|USD|GBP|CHF|JPY|'
    '[ap]\\.m\\.(?=[ ][a-z]|[,;:!?)–—-])|(?:[ap]\\.?m|[AP]M)\\b'
)
_COUNT = re.compile(r'\{?(?:n|num\w*|\w*count|total)\}?|%.*[diu]')  # placeholders of numbers
_PATH = r'(?:[^\s<>"()]|\([^\s<>"()]*\))*(?:[^\s<>".,;:!?\'()\]»”]|\([^\s<>"()]*\))'
# What follows a paragraph of German law: Abs. 2 Satz 1, i. V. m. § 3 ff. BGB.
_CLAUSE = r'(?:Abs|Nr|Satz|S|lit|i\.[ ]?V\.[ ]?m)\.?[ ](?:§[ ])?(?:\d+\w?|[a-z])|ff?\.|[A-Z][A-Za-z]{1,7}(?<=[BGOV])'
# A formula has terms (2x, mc², x2) and sums of them.
_TERM = r'(?:\d+(?:[.,]\d+)?[a-z]?|[A-Za-z]{1,2}[²³]|[A-Za-z]\d?)'
_SUM = rf'{_TERM}(?:[ ]?[-+−*/×·^][ ]?{_TERM}){{0,9}}'
_ENTITY = r'&(?:[a-zA-Z]{2,8}\d{,2}|\#\d{1,6}|\#[xX][\da-fA-F]{1,5});'  # of HTML
# What may contain the signs of all others.
_ADDRESS = rf"""
    (?:\b[a-z]{{2,9}}://|\bwww\.|\bmailto:){_PATH}    # addresses; signs that end a sentence stay outside
    | {WHOLE} | {TAG} | {_ENTITY}
"""
_LITERAL = re.compile(
    rf"""
    {_ADDRESS}
    | (?<![\w.+-])[\w.+-]+@\w[\w-]{{0,62}}(?:\.[\w-]{{1,63}})+(?<!-)    # e-mail addresses
    | (?<![\w.%@/-])(?:[\w-]|%[\dA-F]{{2}}){{2,}}(?:[./\\][\w-]+)*\.[a-z][a-z\d]{{1,4}}(?![\w-])(?:/(?:{_PATH})?)?
    | `[^`]+` | ^[ ]*\$[ ][a-z].* | \[X\d+X\]    # code, a command; Weblate's placeholders
    | \b(?:Ctrl|Strg|Alt|Shift|Umschalt|Cmd|Win|Fn)(?:[ ]\+[ ][^\W_]+)+    # keys
    | \$\$[^$]+\$\$ | (?<![\w.,+*/^-]){_SUM}(?:[ ]?[=≈≠≤≥][ ]?{_SUM}){{1,9}}(?:[ ](?:{_UNITS}))?(?![\w^/])    # formulas
    | (?:(?<=\bBIC[ ])|(?<=\bBIC:[ ])|(?<=\bSWIFT[ ])|(?<=\bSWIFT:[ ]))[A-Z]{{6}}[A-Z\d]{{2}}(?:[A-Z\d]{{3}})?\b
    | (?<=[^\s.!?][ ])-[a-zA-Z]\w{{,2}}(?![\w-])    # options of commands
    | (?<!\w)(?:[@#]\w[\w-]*|--\w[\w-]*|[A-Z]:\\[^\s"<>|]*\w)
    | (?<![\w/])(?:~|\.\.?)?(?:/[\w.+-]*\w)+/?(?!\w) | (?<![\w.])\.[a-z]\w+(?![\w.])    # paths
    | \b[a-z]\w*\([^\s()]*\) | \b[^\W\d]\w*(?:[_+=~^&]\w+)+\b    # names in programs, keys, AT&T
    | \b[A-Z]*+[a-z]++[A-Z][a-zA-Z]*(?<!Innen)\b    # makers and companies
    | \b[A-Z](?:\+\+|\#)(?!\w)    # of languages
    | (?:§§?|\bArt\.)[ ]?\d+[a-z]?(?:[ ](?:{_CLAUSE})(?!\w))+
    | (?<![^\s(])(?:[:;=]['’]?-?[)(DPp/|]|<3)(?!\w)    # faces
    | (?P<number>
        \b[A-Z]{{2}}\d\d(?:[ ]?[A-Z\d]{{4}}){{2,7}}(?:[ ]?[A-Z\d]{{1,3}})?\b    # IBAN
        | (?<!\w)(?:\+\d{{1,3}}|\(?0\d{{1,5}}\)?|\(\d{{3}}\))(?:[ /-]{{1,3}}\(?\d+\)?)+(?!\w)    # telephone numbers
        | (?<!\w)\d+['′][ ]?\d+["″](?!\w)
        | \b\d{{4}}(?:[ ]\d{{4}}){{2,}}\b | (?<![\w.])\d{{1,2}}\.[ ]\d{{1,2}}\.[ ]\d{{4}}\b
        | (?<![\w.])\d{{1,2}}\.\d{{1,2}}\.(?=[ ][a-zäöü(])    # 24.12. in a sentence
        | (?<!\w)[+−-]?[$€£¥][ ]?{_NUMBER}(?:k|m|bn|[KMB])?(?!\w)
        | (?<![\w.,])(?:[±+−-]|[<>≤≥~≈]=?[ ]?|§§?[ ]?)?(?:\d{{1,3}}(?:[ ]\d{{3}})+(?![\w ]*\d)|{_NUMBER})
          (?:(?:(?<=[:.]\d\d)|(?<=\b0)|(?<=\b1[3-9])|(?<=\b2[0-4]))[ ]Uhr\b
          |(?!(?<=\d0)s)[ \u00a0\u202f]?(?:{_UNITS})(?![\w/])
          |(?![A-Z_\d]|[a-rt-z]\b|[a-z]+\d|-\w*\d|-[A-Z]\b))
    )
    | \b(?=[^\W\d]*\d)\w+(?:[-_.:/#](?:\w*\d\w*|[A-Z]\b))*\b | \b[^\W\d]+(?:[-.:/#]\w*\d\w*)+\b    # identifiers
    """,
    re.X,
)
_ADDRESSES = re.compile(_ADDRESS, re.X)
_TAG = re.compile(r'>>(\w+)<<(?=\s)')  # Marian's, of the target language
_CLOCK = re.compile(r'(0?[1-9]|1[0-2])(:[0-5]\d)?[ \u00a0\u202f]?([ap])\.?m\.?', re.I)
_MONTHS = 'Jan|Feb|M[aä][iryz]|Apr|Ju[nl]|Aug|Sep|O[ck]t|Nov|De[cz]'
_MARKER = re.compile(
    rf'\s*(?:(?:(?:[-*+•·–—]|>+|#{{1,6}}|\(?(?:\d{{1,3}}|[a-z])[.)](?!\s*(?:{_MONTHS}|\d|\w{{1,2}}\.)))\s++)+(?=\S)'
    r'|(?:\.{3}|…)(?=\w))'
)
_WRITTEN = '|"\'()«»„“”‚‘’…—–-.,:;/%§$€£¥!?\xad\ufffd'  # the model's, even where it spells them by bytes
_ENCLOSING = re.compile(r'[(\["“‘\']')
DASH = re.compile(r'(?<!\S)[-–—](?!-)')  # models that have seen -- write it so
PENDING = re.compile(r'[,;:](?=\s*$)')  # a sentence goes on
_AND = {'en': 'and', 'de': 'und', 'fr': 'et', 'es': 'y'}
_POINT = {'en', 'zh', 'ja', 'ko', 'he', 'th', 'hi', 'ar', 'cy', 'ga', 'ms', 'tl', 'ur', 'bn'}  # others write 3,5


class Literals:
    """Finds the literals of lines, and their names alone if others are translated, for one tokenizer and search."""

    def __init__(
        self, tokenizer: Tokenizer, source: str, decoding: DecodingConfig, words: TrainingWords | None = None
    ) -> None:
        self._tokenizer = tokenizer
        target = decoding.target_language
        styles = {two_letters(language) in _POINT for language in (source, target or source)}
        self._are_kept = decoding.literals != 'translated'
        self._swaps = decoding.literals == 'localized' and len(styles) == 2
        self._thousands, self._decimal = ',.' if two_letters(source) in _POINT else '.,'
        self._is_into_german = target is None or two_letters(target) == 'de'
        own, other = (_AND.get(two_letters(language)) for language in (source, target or source))
        self._and = f'{own} {other}' if own and other else 'sign'
        lexicon = words.get(source) if words and is_named(source) else None
        self._names = Names(source, lexicon) if lexicon else None
        self._knows_brackets = tokenizer.has_piece_for('(')
        self._is_english = two_letters(source) == 'en'
        self._in_sentence_case = SentenceCase(tokenizer, source, lexicon, self._ranges_of_names)
        self._known: dict[str, bool] = {}  # whether a character is left to the model

    def mark(
        self, line: str | bytes | Marked, glossary: Glossary | None = None, *, encloses: bool = True
    ) -> str | bytes | Marked:
        """The line with its literals, which are no terms; itself if it has none.

        With `encloses`, Markdown's signs, brackets and quotation marks are put aside, too.
        """
        marked = line if isinstance(line, Marked) else Marked(as_text(line)[0].translate(LINE_BREAKS))
        text = marked.text
        is_plain = not isinstance(line, Marked)
        terms = (
            _outside_of_addresses([(term.start, term.end) for term in glossary.find(text)], text) if glossary else []
        )
        tag = _TAG.match(text)
        kept = [*terms, *([tag.span()] if tag and tag[1] in self._tokenizer.languages else [])]
        taken = sorted([*((span.start, span.end) for span in marked.spans), *kept])
        if not self._are_kept:  # the model gets addresses as they are written
            for matches in _matches(text):
                spans = [match.span() for match in matches if _kind(match) == 'name']
                kept += apart(taken, spans)
                taken = sorted({*taken, *kept})
        literals: list[Span] = []
        enclosures: list[Span] = []
        if encloses and self._are_kept:
            tags = [match.span() for match in _ADDRESSES.finditer(text) if match[0].startswith('<')]
            literals = markdown_spans(text, sorted([*taken, *tags])) if is_plain else []
            enclosures = self._enclosures(marked, [*marked.spans, *literals])
        asides = [span for span in enclosures if span.kind == 'literal']
        taken = [place for place in taken if not is_within(asides, place[0])]
        literals += enclosures
        taken = sorted([*taken, *((span.start, span.end) for span in literals)])
        for ranges in self._ranges(text):
            for start, end, kind in apart(taken, ranges):
                raw = marked.escape(self._localized(text[start:end], kind))
                own = tag_span(text, start, end) if is_plain else None
                literals.append(own or Span(start, end, 'literal', raw, kind))
            taken = sorted({*taken, *((span.start, span.end) for span in literals)})
        marked = self._in_sentence_case(with_spans(marked, literals), kept, glossary)
        is_same = not marked.spans and marked.text == text
        return line if is_same and not (PENDING.search(text) or DASH.search(text)) else marked

    def _enclosures(self, line: Marked, spans: Sequence[Span]) -> list[Span]:
        """The spans of parentheses without tags inside and, in English, of quotation marks, in order.

        None if the model has a piece for a bracket, which it has seen then.
        """
        if self._knows_brackets or not _ENCLOSING.search(line.text):
            return []
        kept = [match.span() for matches in _matches(line.text) for match in matches]
        starts = sorted(span.start for span in spans)
        found = [
            aside
            for aside in parentheses(line, kept)
            if bisect_left(starts, aside.start) == bisect_left(starts, aside.end)
        ]
        if self._is_english:
            taken = sorted((span.start, span.end) for span in (*found, *spans))
            found += pairs_apart(taken, list(quotations(line, kept, in_german=self._is_into_german)))
        return sorted(found, key=attrgetter('start'))

    def _ranges(self, text: str) -> Iterator[list[tuple[int, int, str]]]:
        """Yields the start, end and kind of literals; those that come first win."""
        if not self._are_kept:
            yield from self._ranges_of_names(text)
            return
        if not any(map(str.isalpha, text)):
            yield [(len(text) - len(text.lstrip()), len(text.rstrip()), 'sign')] if text.strip() else []
            return
        if marker := _MARKER.match(text):
            yield [(0, len(marker[0].rstrip()), 'sign')]
        for matches in _matches(text):
            yield [(*match.span(), self._and if match[0] == '&amp;' else _kind(match)) for match in matches]
        yield from self._ranges_of_names(text)
        strange = [(*match.span(), _kind(match)) for match in self._strange(text)]
        yield [(*at, self._and if text[at[0] - 1 : at[1] + 1] == ' & ' else kind) for *at, kind in strange]

    def _ranges_of_names(self, text: str) -> Iterator[list[tuple[int, int, str]]]:
        for found in (persons(text), surnames(text)):
            yield [(start, end, 'person') for start, end in found]
        if self._names:
            yield list(self._names(text))

    def _strange(self, text: str) -> Iterable[re.Match[str]]:
        """Signs, and words in other scripts, that the vocabulary lacks."""
        known = self._known
        for character in {*text} - known.keys():
            known[character] = self._is_known(character)
        strange = sorted(character for character in {*text} if not known[character])
        if not strange:
            return ()
        signs = re.escape(''.join(strange))
        letters = re.escape(''.join(c for c in strange if c.isalpha() and not re.match(UNSPACED, c)))
        word = rf'\w*[{letters}]\w*' if letters else rf'[{signs}]+'
        return re.finditer(rf'{word}(?:[ -]{word})*|[{signs}]+', text)

    def _is_known(self, character: str) -> bool:
        if character.isspace() or character.isdigit() or character in _WRITTEN:
            return True
        is_latin = character.isalpha() and ('LATIN' in unicodedata.name(character, '') or character < '\u0250')
        return is_latin or self._tokenizer.has_piece_for(character)

    def _localized(self, raw: str, kind: str) -> str:
        own, other = self._thousands, self._decimal
        number = rf'(?<![\w.,:/-])\d+(?:{re.escape(own)}\d{{3}})*(?:{re.escape(other)}\d+)?(?![\w.,:/-]*\d)'
        if raw.endswith(' Uhr') and not self._is_into_german:  # it would be translated: at 14:30 o'clock
            clock = raw.removesuffix(' Uhr')
            if clock.isdigit():
                return f'{clock}:00'
            return clock.replace('.', ':') if self._swaps else clock
        if not self._swaps or kind != 'number':
            return raw
        if self._is_into_german and (clock := _CLOCK.fullmatch(raw)):
            hour = int(clock[1]) % 12 + 12 * (clock[3] in 'pP')
            return f'{hour}{clock[2] or ""} Uhr'
        return re.sub(number, lambda match: match[0].translate(str.maketrans(own + other, other + own)), raw)


def _matches(text: str) -> Iterator[Iterator[re.Match[str]]]:
    yield _ADDRESSES.finditer(text)
    yield placeholders('message').finditer(text)
    yield _LITERAL.finditer(text)


def with_literals(line: Marked, named: Sequence[str] = ()) -> Marked:
    """The line with spans for the placeholders of a message, or else for the texts that are named."""
    if line.family:
        pattern = placeholders(line.family, with_unit=True)
    else:
        longest_first = sorted(filter(str.strip, named), key=len, reverse=True)
        pattern = re.compile('|'.join(map(re.escape, longest_first)) or '(?!)')
    new = []
    taken = [(span.start, span.end) for span in line.spans]  # a match with a tag inside is not kept whole
    for start, end, match in apart(taken, [(*match.span(), match) for match in pattern.finditer(line.text)]):
        new.append(literal(line, start, end, _kind(match).replace('sign', '')))
    return with_spans(line, new)


def _outside_of_addresses(terms: Sequence[tuple[int, int]], text: str) -> list[tuple[int, int]]:
    """The terms but for those that are only a part of an address or of a file's name."""
    matches = _LITERAL.finditer(text) if terms else ()
    addresses = [match.span() for match in matches if _is_address(match)]
    starts = [start for start, _ in addresses]

    def is_part(term: tuple[int, int]) -> bool:
        before = bisect_right(starts, term[0])
        return before > 0 and term != addresses[before - 1] and term[1] <= addresses[before - 1][1]

    return [term for term in terms if not is_part(term)]


def _is_address(match: re.Match[str]) -> bool:
    """Also whether it is a tag."""
    return match[0].startswith('<') or (not match['number'] and re.fullmatch(r'\S*[/@\\.#]\S*', match[0]) is not None)


def _kind(match: re.Match[str]) -> str:
    """What stands in for a literal: a number, a name, or nothing for a sign."""
    text = match[0]
    if not any(map(str.isalnum, text)) or (re.fullmatch(_ENTITY, text) and text not in ('&lt;', '&gt;')):
        return 'sign'
    if ('number' in match.re.groupindex and match['number']) or _COUNT.fullmatch(text):
        return 'number'
    return 'number' if sum(map(str.isdigit, text)) >= sum(map(str.isalpha, text)) else 'name'
