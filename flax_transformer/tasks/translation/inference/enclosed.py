"""What stands in brackets and in quotation marks, for models that have no piece for a bracket.

They spell brackets by bytes, which they have hardly ever seen, and after such a sign, or a quotation mark, a word in
other pieces than after a blank: they leave it as it was.
"""

import re
from collections.abc import Iterable, Iterator

from .marked import Marked, Span, aside

# Around whole words: not in book(s), f(x) or :(. What is in brackets may have brackets of its own.
_INSIDE = r'[^()\[\]]*(?:\([^()]*\)[^()\[\]]*)*'
_BRACKETS = re.compile(rf'(?<![^\s"„“‚‘«»—–-])(?:\((?P<round>{_INSIDE})\)|\[(?P<square>[^\[\]()]*)\])(?![\w(\[])')
# Around words: an apostrophe is no such sign.
_QUOTED = re.compile(
    r"""(?<![^\s("„“‚‘«»\[—–-])(?:"(?=\S)[^"]*(?<=\S)" | “(?=\S)[^“”]*(?<=\S)” | ‘(?=\S)[^‘’]*(?<=\S)’
    | '(?=\w)[^']*(?<=[^\s'])')(?![\w'’])""",
    re.X,
)
_GERMAN = {'"': '„“', '“': '„“', '‘': '‚‘'}  # the sign that opens tells the pair
_LETTERS = re.compile(r'[^\W\d_]{2}')
_ACRONYM = re.compile(r'[A-ZÄÖÜ]{2,6}')


def parentheses(line: Marked, kept: Iterable[tuple[int, int]]) -> Iterator[Span]:
    """The spans of a line's parentheses, with a text inside that is translated on its own.

    They cut nothing of what is kept. A parenthesis that is all of the line has spans for its brackets.
    """
    text = line.text
    for match in _whole(_BRACKETS, text, kept):
        start, end = match.span()
        first, last = match.span(match.lastgroup)
        inside = text[first:last]
        if inside != inside.strip():
            continue
        if match[0] == text.strip():
            yield Span(start, first, 'open', line.escape(text[start:first]), 'parenthesis')
            yield Span(last, end, 'close', line.escape(text[last:end]), 'parenthesis')
            continue
        # The blank goes with it where a sign follows: 'It is late (as ever).'
        blank = ' ' if text[start - 1 : start] == ' ' and text[end : end + 1] in (*'.,;:!?"”’“»<',) else ''
        opening, closing = line.escape(blank + text[start:first]), line.escape(text[last:end])
        raw = line.escape(inside)
        is_sentence = not inside[0].islower() or inside[-1] in '.!?…'
        part = Marked(inside, escape=line.escape, raw=raw) if is_sentence else aside(inside, line.escape)
        parts = () if _ACRONYM.fullmatch(inside) else (opening, part, closing)
        yield Span(start - len(blank), end, 'literal', opening + raw + closing, 'sign', parts)


def quotations(line: Marked, kept: Iterable[tuple[int, int]], *, in_german: bool) -> Iterator[tuple[Span, Span]]:
    """The spans of quotation marks in English, in pairs; German writes others.

    They cut nothing of what is kept.
    """
    text = line.text
    for match in _whole(_QUOTED, text, kept):
        first, last = match.start(), match.end() - 1
        signs = text[first] + text[last]
        if in_german:
            signs = _GERMAN.get(signs[0], signs)
        opening, closing = map(line.escape, signs)
        yield (
            Span(first, first + 1, 'open', opening, 'quotation'),
            Span(last, last + 1, 'close', closing, 'quotation'),
        )


def _whole(pattern: re.Pattern[str], text: str, kept: Iterable[tuple[int, int]]) -> Iterator[re.Match[str]]:
    """The matches with words inside, but for those whose first or last character is part of what is kept."""
    inside_of_kept = {at for start, end in kept for at in range(start, end)}
    for match in pattern.finditer(text):
        if _LETTERS.search(match[0]) and not inside_of_kept & {match.start(), match.end() - 1}:
            yield match
