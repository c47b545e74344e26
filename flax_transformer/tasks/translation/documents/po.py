"""Gettext's messages: PO, and POT."""

import contextlib
import gettext
import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.translation.inference.placeholders import family_of, placeholders

from .document import NEXT, Document, Edit, Place, Unit, line_of
from .messages import as_json, message

_STRING = r'"(?:[^"\\\n]|\\.)*+"'
_LINE = re.compile(
    r'^[ \t]*(?:(?P<comment>\#[^\n]*)|(?P<keyword>msg(?:ctxt|id_plural|id|str(?:\[\d+\])?))[ \t]*'
    rf'(?P<strings>{_STRING}(?:[ \t\r]*\n[ \t]*{_STRING})*)|(?P<wrong>\S[^\n]*?))[ \t\r]*$',
    re.M,
)
_CHARSET = re.compile(r'charset=([\w.-]+)')
_PLURAL_FORMS = re.compile(r'nplurals\s*=\s*(\d+)\s*;\s*plural\s*=\s*([^;\\]+)')
_NUMBERS = 200  # that tell plural forms apart
_MOST_FORMS = 10  # Arabic has 6
_WIDTH = 77  # characters of a line, without its quotes


class _String(NamedTuple):
    raw: str  # its characters, escaped
    lines: int
    start: int  # of its first quote in the file
    end: int


class _Entry:
    def __init__(self) -> None:
        self.strings: dict[str, _String] = {}  # by keyword
        self.flags: list[str] = []
        self.flags_at = (0, 0)
        self.start = -1  # of what follows the flags

    def raw(self, keyword: str) -> str:
        return self.strings[keyword].raw if keyword in self.strings else ''

    @property
    def is_header(self) -> bool:
        return 'msgid' in self.strings and not self.raw('msgid') and 'msgctxt' not in self.strings


class _Plurals(NamedTuple):
    """Which numbers the plural forms of a language are for."""

    count: int
    form_of: Callable[[int], int]
    is_known: bool = True

    @classmethod
    def of(cls, header: str) -> '_Plurals':
        rule = _PLURAL_FORMS.search(header)
        with contextlib.suppress(TypeError, ValueError, ArithmeticError):
            plurals = cls(int(rule[1]), gettext.c2py(rule[2].strip()))
            if max(map(plurals.form_of, range(_NUMBERS))) < plurals.count <= _MOST_FORMS:
                return plurals
        return cls(2, gettext.c2py('n != 1'), is_known=False)

    def source(self, form: int, entry: _Entry) -> str:
        """The singular for a form that is for 1 alone, or for numbers like 1 if it shows them; else the plural."""
        one, many = entry.raw('msgid'), entry.raw('msgid_plural')
        numbers = [number for number in range(_NUMBERS) if self.form_of(number) == form]
        pattern = placeholders(family_of(entry.flags))
        shows_number = sorted(pattern.findall(one)) == sorted(pattern.findall(many))
        is_singular = numbers == [1] or (1 in numbers and 2 not in numbers and shows_number)
        return one if is_singular else many


def read_po(text: str, place: str) -> Document:
    entries = _entries(text, place)
    header = ''.join(entry.raw('msgstr') for entry in entries if entry.is_header)
    charset = _CHARSET.search(header)
    if charset and charset[1].lower() not in ('utf-8', 'utf8', 'us-ascii', 'ascii', 'charset'):
        raise UserError(f'{place}: got charset={charset[1]}, expected UTF-8; convert it, as by `msgconv -t UTF-8`')
    plurals = _Plurals.of(header)
    units = []
    faults = []
    newline = '\r\n' if '\r\n' in text else '\n'

    for entry in entries:
        if entry.is_header or 'msgid' not in entry.strings:
            continue
        wanted = ['msgstr']
        if 'msgid_plural' in entry.strings:
            wanted = [f'msgstr[{form}]' for form in range(plurals.count)]
            there = [keyword for keyword in entry.strings if keyword.startswith('msgstr')]
            where = f'{place}, line {line_of(text, entry.start)}'
            if header and not plurals.is_known:  # no number of forms would be right
                why = 'got a header without Plural-Forms that fit, expected them as `msginit` writes them; it is left'
                faults.append(f'{where}: {why}')
                continue
            if there != wanted:
                got = ', '.join(there) or 'no msgstr[0]'
                faults.append(f'{where}: got {got}, expected {plurals.count} plural forms')
        if not all(map(entry.raw, wanted)):
            units.append(_unit(text, entry, wanted, plurals, newline))
    return Document(text, units, faults)


def _entries(text: str, place: str) -> list[_Entry]:
    entry = _Entry()
    entries = [entry]
    for match in _LINE.finditer(text):
        comment = match['comment']
        if match['wrong']:
            where = f'{place}, line {line_of(text, match.start("wrong"))}'
            raise UserError(f'{where}: got {match["wrong"]!r}; expected msgid, msgstr, "text" or a comment')
        is_whole = any(keyword.startswith('msgstr') for keyword in entry.strings)
        if is_whole and (comment or match['keyword'] in ('msgctxt', 'msgid')):
            entry = _Entry()
            entries.append(entry)
        if match['keyword']:
            lines = re.findall(_STRING, match['strings'])
            raw = ''.join(line[1:-1] for line in lines)
            entry.strings[match['keyword']] = _String(raw, len(lines), *match.span('strings'))
        elif comment.startswith('#,'):
            entry.flags += [flag.strip() for flag in comment[2:].split(',')]
            entry.flags_at = (match.start('comment'), match.end('comment') - (comment[-1] == '\r'))
        if entry.start < 0 and not (comment and comment[1:2] != '|'):
            entry.start = match.start()
    return entries


def _unit(text: str, entry: _Entry, wanted: list[str], plurals: _Plurals, newline: str) -> Unit:
    """What fills the strings that are wanted and empty."""
    source = entry.strings['msgid']
    is_wrapped = source.lines - 1 > source.raw.count('\\n') + (not source.raw.endswith('\\n'))
    end = max(string.end for string in entry.strings.values())
    parts = []
    places = []
    for form, keyword in enumerate(wanted):
        if entry.raw(keyword):
            continue
        raw = plurals.source(form, entry) if 'msgid_plural' in entry.strings else source.raw
        more, finish = message(raw, as_json, entry.flags)
        before = '' if keyword in entry.strings else f'{newline}{keyword} '
        quoted = partial(_quoted, finish=finish, before=before, newline=newline, is_wrapped=is_wrapped)
        string = entry.strings.get(keyword, _String('', 0, end, end))
        parts += [*([NEXT] if places else []), *more]
        places.append(Place(string.start, string.end, quoted))

    # A message without a translation is marked only because it could not be translated before.
    marks = []
    left = []
    start, stop = entry.flags_at
    others = ', '.join(flag for flag in entry.flags if flag != 'fuzzy')
    if not entry.flags:
        left = [Edit(entry.start, entry.start, f'#, fuzzy{newline}')]
    elif 'fuzzy' not in entry.flags:
        left = [Edit(start, stop, f'#, {others}, fuzzy')]
    elif others:
        marks = [Edit(start, stop, f'#, {others}')]
    else:
        marks = [Edit(start, text.index('\n', stop) + 1, '')]
    return Unit(parts, places, source.start, marks, left)


def _quoted(
    raw: str, *, finish: Callable[[str], str | None], before: str, newline: str, is_wrapped: bool
) -> str | None:
    """A string's lines, after `before`, much as gettext breaks them."""
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
