"""What single characters show: damage, script, Unicode form; in NumPy, a chunk of lines at a time."""

import functools
import html.entities
import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# Bits of a character.
LETTER, DIGIT, CONTROL, ODD_SPACE, COMPOSED, COMBINING = (1 << i for i in range(6))

# Scripts that tell languages apart, as the names of their letters begin; Chinese and Japanese count as one.
SCRIPTS = (
    *('LATIN', 'GREEK', 'CYRILLIC', 'ARMENIAN', 'HEBREW', 'ARABIC', 'DEVANAGARI', 'BENGALI', 'GURMUKHI', 'GUJARATI'),
    *('TAMIL', 'TELUGU', 'KANNADA', 'MALAYALAM', 'SINHALA', 'THAI', 'LAO', 'TIBETAN', 'MYANMAR', 'GEORGIAN'),
    *('ETHIOPIC', 'KHMER', 'HANGUL', 'CJK'),
)
# Keys are Unicode's categories, or their first letters.
_BITS = {'L': LETTER, 'Nd': DIGIT, 'M': COMBINING, 'Z': ODD_SPACE, 'Cc': CONTROL, 'Cf': CONTROL, 'Co': CONTROL}
LAST = 0xFFFF  # stands for all characters beyond (emoji, historic scripts); it has no bits and no script

_QUOTED = re.compile('"(?:[^"]|"")*"')
_JOINERS = '\u200c\u200d'  # legitimate in Indic scripts, Persian and emoji
_LONE_JOINER = re.compile(f'(?<![\u0590-\U0010ffff])[{_JOINERS}]')
_ENTITY = re.compile(r'&(?:#\d{2,7}|#[xX][0-9a-fA-F]{2,6}|[A-Za-z][A-Za-z0-9]{1,30});')
_TAG = re.compile(
    r'</?(?:a|b|br|div|em|font|h[1-6]|i|img|li|ol|p|span|strong|sub|sup|table|td|tr|u|ul)(?=[\s/>])[^<>\n]*>',
    re.IGNORECASE,
)
# Two-byte UTF-8 (extended Latin, Greek, Cyrillic, Arabic) and three-byte UTF-8 (quotes and dashes), each byte read as
# Latin-1 or Windows-1252. Quotation marks may legitimately follow a capital.
_HIGH = '\u0080-\u00bf€ƒ†‡ˆ‰Š‹ŒŽ˜™š›œžŸ'
_QUOTES = '‚„…‘’“”•–—'
_MOJIBAKE = re.compile(
    f'[ÂÃ][{_HIGH}{_QUOTES}]|[ÄÅÎÏÐÑØÙ][\u0080-\u009f¡-ª¬®-º¼-¿€ƒ†‡ˆ‰]|[ÄÅ][{_QUOTES}](?=[a-z])'
    f'|â[\u0080€][{_HIGH}{_QUOTES}]|â‚¬|\ufffd'
)


class Text(NamedTuple):
    """The lines of one side of a chunk, also joined end to end, each followed by a line feed."""

    lines: list[str]
    joined: str
    codes: np.ndarray  # [characters] int32: code points, at most LAST
    starts: np.ndarray  # [lines + 1] int64: where each line begins

    def any(self, bits: np.ndarray) -> np.ndarray:
        """[lines] uint8: the bits of any character in each line, from [characters]."""
        return np.bitwise_or.reduceat(bits, self.starts[:-1])

    def count(self, chosen: np.ndarray) -> np.ndarray:
        """[lines]: the sum over each line, from [characters]."""
        return np.add.reduceat(chosen, self.starts[:-1], dtype=np.float32 if chosen.dtype.kind == 'f' else np.int64)

    def lines_at(self, positions: list[int]) -> np.ndarray:
        """The lines, each once, that contain these positions of `joined`."""
        return np.unique(np.searchsorted(self.starts, positions, side='right') - 1)


def lay_out(lines: list[str]) -> Text:
    """The lines as a Text; at least one."""
    joined = '\n'.join(lines) + '\n'
    codes = np.frombuffer(joined.encode('utf-32-le', 'surrogatepass'), np.uint32).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum([len(line) + 1 for line in lines])])
    return Text(lines, joined, np.minimum(codes, LAST), starts)


@functools.cache
def bits_of_characters() -> np.ndarray:
    """[LAST + 1] uint8: the bits of each character."""
    bits = np.zeros(LAST + 1, np.uint8)
    for code in range(LAST):
        character = chr(code)
        category = unicodedata.category(character)
        bits[code] = _BITS.get(category, _BITS.get(category[0], 0))
        if code > 0x7F and (parts := unicodedata.decomposition(character)) and parts[0] != '<' and ' ' in parts:
            bits[code] |= COMPOSED
    bits[[0x09, 0x0D]] = ODD_SPACE
    bits[[0x0A, 0x20]] = 0  # ends each line of a Text; the space
    bits[list(map(ord, _JOINERS))] = 0
    bits[0x600:0x606] = 0  # signs of Arabic, though format characters
    return bits


@functools.cache
def scripts_of_characters() -> np.ndarray:
    """[LAST + 1] uint8: the script of each letter, numbered as in SCRIPTS from 1; 0: none of them."""
    numbers = {name: number for number, name in enumerate(SCRIPTS, start=1)}
    numbers |= dict.fromkeys(('HIRAGANA', 'KATAKANA', 'IDEOGRAPHIC'), numbers['CJK'])
    scripts = np.zeros(LAST + 1, np.uint8)
    for code in np.flatnonzero(bits_of_characters() & LETTER).tolist():
        scripts[code] = numbers.get(re.split('[ -]', unicodedata.name(chr(code), ''))[0], 0)
    return scripts


def lines_with_controls(text: Text, bits: np.ndarray) -> np.ndarray:
    """The lines with control, zero-width or private characters; a joiner between characters that it joins is fine."""
    lone = text.lines_at([match.start() for match in _LONE_JOINER.finditer(text.joined)])
    return np.union1d(np.flatnonzero(text.any(bits) & CONTROL), lone)


def lines_with_entities(text: Text) -> np.ndarray:
    """The lines with a named or numbered HTML entity, or a tag."""
    positions = []
    if '&' in text.joined:
        names = html.entities.html5
        found = _ENTITY.finditer(text.joined)
        positions += [match.start() for match in found if match[0][1] == '#' or match[0][1:] in names]
    if '<' in text.joined:
        positions += [match.start() for match in _TAG.finditer(text.joined)]
    return text.lines_at(positions)


def lines_with_mojibake(text: Text) -> np.ndarray:
    """The lines with UTF-8 that was read as Latin-1 or Windows-1252, or with U+FFFD."""
    if text.joined.isascii():
        return np.zeros(0, np.int64)
    return text.lines_at([match.start() for match in _MOJIBAKE.finditer(text.joined)])


def quoted_rows(*columns: Sequence[str]) -> list[int]:
    """The rows that a writer of CSV has quoted: all their cells, or one with quotes of its own, which it doubles."""
    found = []
    for number, row in enumerate(zip(*columns, strict=True)):
        quoted = [cell for cell in row if cell[:1] == '"' and _QUOTED.fullmatch(cell)]
        if quoted and (len(quoted) == len(row) > 1 or any('""' in cell[1:-1] for cell in quoted)):
            found.append(number)
    return found


def lines_with_odd_spaces(text: Text, bits: np.ndarray) -> np.ndarray:
    """The lines with a leading or trailing space, a tab, or a space other than U+0020."""
    space = text.codes == 0x20
    odd = (text.any(bits) & ODD_SPACE) != 0
    odd |= space[text.starts[:-1]] | (space[np.maximum(text.starts[1:] - 2, 0)] & (np.diff(text.starts) > 1))
    return np.flatnonzero(odd)


def composed_and_decomposed(text: Text, bits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lines with characters that NFC composes, and those that NFC would change, which are decomposed."""
    found = text.any(bits)
    marked = np.flatnonzero(found & COMBINING)
    decomposed = [line for line in marked if not unicodedata.is_normalized('NFC', text.lines[line])]
    composed = np.flatnonzero(found & COMPOSED)
    return np.setdiff1d(composed, decomposed), np.array(decomposed, np.int64)
