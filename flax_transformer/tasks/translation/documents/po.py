"""Gettext's messages: PO, and POT."""

import gettext
import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.translation.inference.placeholders import family_of, placeholders

from .document import NEXT, Document, Edit, Place, Unit
from .messages import as_json, message

_STRING = re.compile(r'(?:(msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)\s*)?"((?:[^"\\]|\\.)*)"')
_CHARSET = re.compile(r'charset=([\w.-]+)')
_PLURAL_FORMS = re.compile(r'nplurals\s*=\s*(\d+)\s*;\s*plural\s*=\s*([^;\\]+)')
_WIDTH = 77  # characters of a line, without its quotes


class _String(NamedTuple):
    raw: str  # its characters, escaped
    start: int  # of its first quote in the file
    end: int
    lines: int


class _Entry:
    def __init__(self) -> None:
        self.strings: dict[str, _String] = {}  # by keyword
        self.flags: list[str] = []
        self.flag_line: tuple[int, int] | None = None
        self.start = -1  # of what follows the flags
        self.line = 0

    @property
    def is_header(self) -> bool:
        return 'msgctxt' not in self.strings and 'msgid' in self.strings and not self.strings['msgid'].raw

    def add(self, keyword: str, raw: str, start: int, end: int) -> None:
        if keyword in self.strings:
            before = self.strings[keyword]
            raw = before.raw + raw
            start = before.start
            self.strings[keyword] = _String(raw, start, end, before.lines + 1)
        else:
            self.strings[keyword] = _String(raw, start, end, 1)


class _Plurals(NamedTuple):
    """Which numbers the plural forms of a language are for."""

    count: int
    form_of: Callable[[int], int]
    is_known: bool = True

    @classmethod
    def of(cls, header: str) -> '_Plurals':
        rule = _PLURAL_FORMS.search(header)
        try:
            return cls(int(rule[1]), gettext.c2py(rule[2].strip()))
        except (TypeError, ValueError):
            return cls(2, gettext.c2py('n != 1'), is_known=False)

    def source(self, form: int, one: str, many: str, flags: list[str]) -> str:
        """The singular for a form that is for 1 alone, or for numbers like 1 if it shows them; else the plural."""
        numbers = [number for number in range(200) if self.form_of(number) == form]
        pattern = placeholders(family_of(flags))
        shows_number = sorted(pattern.findall(one)) == sorted(pattern.findall(many))
        is_singular = numbers == [1] or (1 in numbers and 2 not in numbers and shows_number)
        return one if is_singular else many


def read_po(text: str, place: str) -> Document:
    entries = _entries(text, place)
    header = ''.join(entry.strings['msgstr'].raw for entry in entries if entry.is_header and 'msgstr' in entry.strings)
    charset = _CHARSET.search(header)
    if charset and charset[1].lower() not in ('utf-8', 'utf8', 'us-ascii', 'ascii', 'charset'):
        raise UserError(f'{place}: got charset={charset[1]}, expected UTF-8; convert it, as by `msgconv -t UTF-8`')
    plurals = _Plurals.of(header)
    units = []
    faults = []

    for entry in entries:
        if entry.is_header or 'msgid' not in entry.strings:
            continue
        wanted = ['msgstr']
        if 'msgid_plural' in entry.strings:
            wanted = [f'msgstr[{form}]' for form in range(plurals.count)]
            there = [keyword for keyword in entry.strings if keyword.startswith('msgstr')]
            if not plurals.is_known or there != wanted:
                why = '' if plurals.is_known else '; the header has no Plural-Forms, as by `msginit`'
                got = ', '.join(there) or 'no msgstr[0]'
                faults.append(f'{place}, line {entry.line}: got {got}, expected {plurals.count} plural forms{why}')
            if header and not plurals.is_known:
                continue  # no number of forms would be right
        if any(keyword not in entry.strings or not entry.strings[keyword].raw for keyword in wanted):
            units.append(_unit(text, entry, wanted, plurals))
    return Document(text, units, faults)


def _entries(text: str, place: str) -> list[_Entry]:
    entry = _Entry()
    entries = [entry]
    keyword = ''
    start = 0
    for number, line in enumerate(text.split('\n'), start=1):
        content = line.strip()
        match = _STRING.fullmatch(content)
        is_comment = content.startswith('#')
        if is_comment or (match and match[1] in ('msgctxt', 'msgid')):
            if any(name.startswith('msgstr') for name in entry.strings):
                entry = _Entry()
                entries.append(entry)
            keyword = '' if is_comment else keyword
        if content.startswith('#,'):
            entry.flags += [flag.strip() for flag in content[2:].split(',')]
            entry.flag_line = (start, start + len(line.rstrip()))
        elif (match or content.startswith('#|')) and entry.start < 0:
            entry.start = start
            entry.line = number
        if match:
            keyword = match[1] or keyword
            entry.add(keyword, match[2], start + line.index('"'), start + len(line.rstrip()))
        if content and not is_comment and not (match and keyword):
            raise UserError(f'{place}, line {number}: got {content!r}; expected msgid, msgstr, "text" or a comment')
        start += len(line) + 1
    return entries


def _unit(text: str, entry: _Entry, wanted: list[str], plurals: _Plurals) -> Unit:
    """What fills the strings that are wanted and empty."""
    one = entry.strings['msgid']
    many = entry.strings.get('msgid_plural', one)
    newline = '\r\n' if '\r\n' in text else '\n'
    is_wrapped = one.lines - 1 > one.raw.count('\\n') + (not one.raw.endswith('\\n'))
    parts = []
    places = []
    end = max(string.end for string in entry.strings.values())
    for form, keyword in enumerate(wanted):
        string = entry.strings.get(keyword)
        if string and string.raw:
            continue
        before = '' if string else f'{newline}{keyword} '
        source = one.raw
        if many is not one:
            source = plurals.source(form, one.raw, many.raw, entry.flags)
        string = string or _String('', end, end, 0)
        more, finish = message(source, as_json, entry.flags)
        quoted = partial(_quoted, finish=finish, before=before, newline=newline, is_wrapped=is_wrapped)
        parts += [*([NEXT] if places else []), *more]
        places.append(Place(string.start, string.end, quoted))

    marks = []
    left = []
    if 'fuzzy' in entry.flags:
        start, stop = entry.flag_line
        others = [flag for flag in entry.flags if flag != 'fuzzy']
        if others:
            marks.append(Edit(start, stop, f'#, {", ".join(others)}'))
        else:
            marks.append(Edit(start, text.index('\n', stop) + 1, ''))
    elif entry.flags:
        left.append(Edit(entry.flag_line[1], entry.flag_line[1], ', fuzzy'))
    else:
        left.append(Edit(entry.start, entry.start, f'#, fuzzy{newline}'))
    return Unit(parts, places, one.start, marks, left)


def _quoted(
    raw: str, *, finish: Callable[[str], str | None], before: str, newline: str, is_wrapped: bool
) -> str | None:
    """A string's lines, after `before`, much as gettext breaks them; None if it cannot be."""
    raw = finish(raw)
    if raw is None:
        return None
    lines = []
    for line in filter(None, re.findall(r'(?:\\[^n]|[^\\])*(?:\\n|$)', raw)):
        part = ''
        for word in re.findall(r'[^ ]* *', line):
            if is_wrapped and part and len(part + word.rstrip()) > _WIDTH:
                lines.append(part)
                part = ''
            part += word
        lines.append(part)
    if len(lines) > 1:
        lines = ['', *lines]
    return before + newline.join(f'"{line}"' for line in lines or [''])
