"""JSON Lines into and out of `translate`: an object a line, whose fields come out as they came in."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from flax_transformer.cli.lines import KEPT, to_json, without_line_breaks
from flax_transformer.common.errors import BadInput
from flax_transformer.tasks.translation.inference.lines import as_text

EXPECTED = 'expected {"text": "..."}, optionally with "prefix": "..."'


class Record(NamedTuple):
    """A line to translate."""

    text: str
    prefix: str = ''  # what the translation begins with
    replaced: bool = False  # the line was not valid UTF-8, or its text not valid Unicode: U+FFFD stands for the rest
    members: tuple[tuple[str, str], ...] = ()  # of its object, each with its name: `"name": value` as it came in


def read_records(
    chunks: Iterable[list[str | bytes]], form: str, done: int = 0, place: str = 'input line'
) -> Iterator[list[Record]]:
    """Lists of lines as records, one list for each chunk.

    Raises BadInput for a line that is none, with its number, after the records before it.

    Args:
      form: `text`: a line is a text; `jsonl`: it is a JSON object with a field `text`, or a JSON string, or blank.
      done: the number of lines before the first.
      place: what messages put before a line's number.
    """
    for chunk in chunks:
        records: list[Record] = []
        for number, line in enumerate(chunk, start=done + 1):
            try:
                records.append(_text_record(line) if form == 'text' else _json_record(line))
            except ValueError as error:
                yield records
                raise BadInput(f'{place} {number} {error}{KEPT}') from None
        done += len(chunk)
        yield records


def write_record(record: Record, fields: dict[str, Any]) -> str:
    """The record's object as it came in, with more fields, on one line; they replace fields of the same name."""
    kept = [member for name, member in record.members or _text_member(record) if name not in fields]
    return without_line_breaks('{' + ', '.join([*kept, to_json(fields)[1:]]))


def _text_record(line: str | bytes) -> Record:
    text, replaced = as_text(line)
    return Record(text, replaced=replaced)


def _json_record(line: str | bytes) -> Record:
    """Raises ValueError, which says what the line is instead."""
    line, replaced = as_text(line)
    if not line.strip():
        return Record('')
    try:
        fields, members = _parse(line)
    except json.JSONDecodeError as error:
        raise ValueError(f'is not JSON ({error.msg}, character {error.pos + 1}); {EXPECTED}') from None
    except RecursionError:
        raise ValueError(f'is nested too deeply; {EXPECTED}') from None
    text, prefix = fields.get('text'), fields.get('prefix')
    prefix = '' if prefix is None else prefix
    if not isinstance(text, str) or not isinstance(prefix, str):
        name = 'prefix' if isinstance(text, str) else 'text'
        got = f'got {_kind(fields[name])} as "{name}"' if name in fields else f'there is no field "{name}"'
        raise ValueError(f'is no record: {got}; {EXPECTED}')
    (text, one), (prefix, two) = as_text(text), as_text(prefix)
    return Record(text, prefix, replaced or one or two, members)


def _text_member(record: Record) -> list[tuple[str, str]]:
    return [('text', f'"text": {json.dumps(record.text, ensure_ascii=False)}')]


def _kind(value: Any) -> str:
    names = {dict: 'an object', list: 'a list', bool: 'true or false', type(None): 'null'}
    return names.get(type(value), 'a number')


def _refuse(word: str) -> None:
    raise ValueError(f'is not JSON ({word}); {EXPECTED}')


# Numbers are only copied, so their digits are not converted: 1e400 would become infinite, a long one be refused.
_DECODER = json.JSONDecoder(parse_int=lambda digits: 0, parse_float=lambda digits: 0.0, parse_constant=_refuse)
_SPACE = re.compile(r'[ \t\r\n]*')


def _parse(line: str) -> tuple[dict[str, Any], tuple[tuple[str, str], ...]]:
    """The values of an object's fields, numbers as 0, and its members as text; of a name that comes twice the last.

    A string stands for an object with that text. Raises JSONDecodeError for other syntax, ValueError for other values.
    """
    at = _SPACE.match(line).end()
    if line[at : at + 1] != '{':
        value = _DECODER.decode(line)
        if isinstance(value, str):
            return {'text': value}, (('text', f'"text": {line.strip()}'),)
        raise ValueError(f'is no record: got {_kind(value)}; {EXPECTED}')
    fields, members = {}, []
    at, mark = _SPACE.match(line, at + 1).end(), ','
    if line[at : at + 1] == '}':
        at, mark = at + 1, '}'
    while mark == ',':
        begin = at
        if line[at : at + 1] != '"':
            raise json.JSONDecodeError('expected a name in double quotes', line, at)
        name, at = _DECODER.raw_decode(line, at)
        at = _after(line, at, ':')
        fields[name], at = _DECODER.raw_decode(line, at)
        members.append((name, line[begin:at]))
        at = _SPACE.match(line, at).end()
        mark = line[at : at + 1]
        at = _after(line, at, ',' if mark == ',' else '}')
    at = _SPACE.match(line, at).end()
    if at < len(line):
        raise json.JSONDecodeError('expected nothing after the object', line, at)
    return fields, tuple(members)


def _after(line: str, at: int, mark: str) -> int:
    """Where the next token begins after a mark. Raises JSONDecodeError if something else is there."""
    at = _SPACE.match(line, at).end()
    if line[at : at + 1] != mark:
        raise json.JSONDecodeError(f'expected {mark!r}', line, at)
    return _SPACE.match(line, at + 1).end()
