"""Lines split into parts: long ones where it hurts least, paragraphs by sentences."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from flax_transformer.text.tokenizer import as_text

# Ends of a part: after a sentence, but rather not after 3., z. B. and Dr., a clause, a word; never within 10:30.
_STOP = r'[.!?…]+[\'")\]»”’]*\s+|[。！？]\s*'
_SEAMS = (
    rf'(?<![.!?…])(?<!\d)(?<!\b\w)(?<!\b[A-Z][a-z]){_STOP}',
    rf'(?<![.!?…]){_STOP}',
    r'[,;:]\s+|[，；：、]\s*',
    r'\s+',
)

_ABBREVIATION = re.compile(r'\b(z\. ?Hd|Fa|inkl|exkl|zzgl|approx|vol)\.\s+$')
# German ordinals before what is written with a capital: im 2. Stock.
_ORDINAL = re.compile(r'\b([AaIi]m|[Vv]om|[Zz]u[mr]|[Bb]eim|[Dd](er|ie|as|e[mns])|[Jj]ede[rsnm]?) \d{1,3}\.\s+$')
_CELLS = re.compile(r'((?:^|[ \t]+)\|(?:[ \t]+|$)|[ \t]*\t[ \t]*)')


def is_blank(line: str) -> bool:
    return not line.strip()


class Line(NamedTuple):
    """A line in the parts that are translated. Parts and gaps joined are the line, save gaps within a sentence."""

    text: str
    replaced: bool  # it was not valid UTF-8
    lead: str  # the same before the first part
    parts: list[str]  # none: a blank line
    gaps: list[str]  # white space after each part, or cells that are not translated

    def whole(self) -> 'Line':
        return self._replace(lead='', parts=[self.text] * bool(self.parts), gaps=[''] * bool(self.parts))


def split_into_parts(
    line: str | bytes,
    count: Callable[[str], int],
    limit: int,
    language: str | None = None,
    spans: Sequence[tuple[int, int]] = (),
    *,
    in_cells: bool = False,
) -> Line:
    """The line in parts of at most `limit` tokens by `count`; with a language, sentence by sentence.

    No sentence ends within one of the `spans`, characters from and to. With `in_cells`, cells between tabs or bars are
    parts, but for those without letters, which are in gaps. `count` must not exceed the number of bytes by
    more than three.
    """
    text, replaced = as_text(line)
    if is_blank(text):
        return Line(text, replaced, '', [], [])
    sentences = [('', '')]  # before the first, too, there may be a gap
    for cell in _CELLS.split(text) if in_cells else [text]:
        before, own = cell, []
        if not in_cells or any(map(str.isalpha, cell)):
            before, own = ('', [(cell, '')]) if language is None else split_sentences(cell, language)
        sentences[-1] = (sentences[-1][0], sentences[-1][1] + before)
        sentences += own
    (_, lead), *sentences = sentences if len(sentences) > 1 else [('', ''), (text, '')]
    sentences = _undivided(sentences, len(lead), spans)
    parts = []
    gaps = []
    for sentence, gap in sentences:
        is_short = len(sentence.encode()) + 4 <= limit  # most lines need not be counted
        pieces = [sentence] if is_short else split_line(sentence, count, limit)
        parts += pieces
        # Sentences without white space between them get a space: the translation may need it.
        gaps += [' '] * (len(pieces) - 1) + [gap or ' ']
    gaps[-1] = sentences[-1][1]
    return Line(text, replaced, lead, parts, gaps)


def split_sentences(line: str, language: str) -> tuple[str, list[tuple[str, str]]]:
    """The white space before the first sentence, and each sentence with the white space after it, by sentencex."""
    import sentencex  # slow, and not for lines

    pieces = [piece for piece in sentencex.segment(language, line) if piece]
    if ''.join(pieces) != line:
        pieces = [line]  # the splitter lost something
    for i in range(len(pieces) - 1, 0, -1):
        before = pieces[i - 1]
        goes_on = not before[-1:].isspace() and pieces[i][:1] in (':', ';', ',')  # Tel.: 030
        if goes_on or _ABBREVIATION.search(before) or (language == 'de' and _ORDINAL.search(before)):
            pieces[i - 1 : i + 1] = [pieces[i - 1] + pieces[i]]
    parts = [('', '')]  # before the first, too, there may be a gap
    for piece in pieces:
        text = piece.strip()
        before, _, after = piece.partition(text) if text else (piece, '', '')
        parts[-1] = (parts[-1][0], parts[-1][1] + before)
        if text:
            parts.append((text, after))
    return parts[0][1], parts[1:]


def _undivided(
    sentences: Sequence[tuple[str, str]], begin: int, spans: Sequence[tuple[int, int]]
) -> list[tuple[str, str]]:
    """The sentences, of which the first begins at a character, joined where a span goes on beyond one."""
    out = []
    for sentence, gap in sentences:
        if out and any(first < begin < last for first, last in spans):
            before, space = out.pop()
            out.append((before + space + sentence, gap))
        else:
            out.append((sentence, gap))
        begin += len(sentence) + len(gap)
    return out


def split_line(line: str, count: Callable[[str], int], limit: int) -> list[str]:
    """A line in parts of at most `limit` tokens by `count`, cut after sentences, else clauses, words, anywhere."""
    if count(line) <= limit:
        return [line]
    return [part.strip() for part in _split(line, count, limit, _SEAMS) if not is_blank(part)]


def _split(text: str, count: Callable[[str], int], limit: int, seams: tuple[str, ...]) -> list[str]:
    if count(text) <= limit or len(text) == 1:
        return [text]
    if not seams:
        middle = len(text) // 2
        return _split(text[:middle], count, limit, ()) + _split(text[middle:], count, limit, ())
    pieces = re.findall(rf'.*?(?:{seams[0]})|.+', text, re.S)
    return _merged([part for piece in pieces for part in _split(piece, count, limit, seams[1:])], count, limit)


def _merged(pieces: list[str], count: Callable[[str], int], limit: int) -> list[str]:
    """Neighbors joined while they fit: the model needs their context."""
    out = pieces[:1]
    for piece in pieces[1:]:
        if count(out[-1] + piece) <= limit:
            out[-1] += piece
        else:
            out.append(piece)
    return out
