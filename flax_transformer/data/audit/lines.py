"""What a line shows by itself, and a source and its target beside each other: damage that is no matter of meaning."""

import html.entities
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence

_CONTROLS = ('Cc', 'Cf', 'Co')  # Unicode's categories
_NO_CONTROLS = '\t\r\u200c\u200d'  # the last two join letters of Indic scripts and Persian, and emoji
_QUOTED = re.compile('"(?:[^"]|"")*"')
_ENTITY = re.compile(r'&(?:#(?:\d{2,7}|[xX][0-9a-fA-F]{2,6})|([A-Za-z][A-Za-z0-9]{1,30}));')
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
_NUMBER = re.compile(r"\d+(?:[.,'’:\u00a0\u202f ]\d{3}(?!\d)|[.,:]\d+)*")
_SPELLED = 12  # numbers up to this are often spelled out on one side only


def is_blank(line: str) -> bool:
    return not line.strip()


def has_control(line: str) -> bool:
    """Whether a line has control, zero-width or private characters; joiners of letters are fine."""
    return not line.isprintable() and any(
        unicodedata.category(character) in _CONTROLS and character not in _NO_CONTROLS for character in line
    )


def has_entity(line: str) -> bool:
    """Whether a line has a named or numbered HTML entity, or a tag."""
    if '&' in line:
        names = _ENTITY.findall(line)  # '' is a number
        if any(not name or f'{name};' in html.entities.html5 for name in names):
            return True
    return '<' in line and _TAG.search(line) is not None


def has_mojibake(line: str) -> bool:
    """Whether a line has UTF-8 that was read as Latin-1 or Windows-1252, or U+FFFD."""
    return not line.isascii() and _MOJIBAKE.search(line) is not None


def has_odd_space(line: str) -> bool:
    """Whether a line has a leading or trailing space, a tab, or a space other than U+0020."""
    if line != line.strip():
        return True
    return not line.isprintable() and any(character.isspace() and character != ' ' for character in line)


# Whether a line shows a kind of KINDS.
LINE_CHECKS: dict[str, Callable[[str], bool]] = {
    'blank': is_blank,
    'control': has_control,
    'entity': has_entity,
    'mojibake': has_mojibake,
}


def rows_where(check: Callable[[str], bool], lines: Sequence[str]) -> list[int]:
    return [row for row, line in enumerate(lines) if check(line)]


def quoted_rows(*columns: Sequence[str]) -> list[int]:
    """The rows that a writer of CSV has quoted: all their cells, or one with quotes of its own, which it doubles."""
    rows = []
    for number, row in enumerate(zip(*columns, strict=True)):
        quoted = [cell for cell in row if cell[:1] == '"' and _QUOTED.fullmatch(cell)]
        if quoted and (len(quoted) == len(row) > 1 or any('""' in cell[1:-1] for cell in quoted)):
            rows.append(number)
    return rows


def numbers_differ(source: str, target: str) -> bool:
    """Whether one side has a number that the other lacks and is unlikely to spell out.

    Grouping does not matter: 10 000 is 10000. If one side has no digits at all, only numbers like 1987 count.
    """
    first = _numbers(source)
    second = _numbers(target)
    if first == second:
        return False
    alone = [*(first - second), *(second - first)]
    if not first or not second:
        return any(len(number) > 2 and number[-1] != '0' for number in alone)
    digits = [''.join(sorted(numbers.elements())) for numbers in (first, second)]
    return digits[0] != digits[1] and any(len(number) > 2 or int(number) > _SPELLED for number in alone)


def _numbers(line: str) -> Counter[str]:
    """The numbers of a line without separators and leading zeros: 1,234.50 and 1.234,50 are the same."""
    return Counter(str(int(re.sub(r'\D', '', number)[:1000])) for number in _NUMBER.findall(line))
