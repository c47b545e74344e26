"""JSON Lines through `translate`: fields come out as they came in, and a bad line loses nothing before it."""

import io
import json
from collections.abc import Callable

import numpy as np
import pytest
from conftest import TESTS
from random_records import check_record, random_bad_record, random_record
from translators import translate_by

from flax_transformer.cli import lines
from flax_transformer.cli.lines import read_records
from flax_transformer.common.errors import BadInput, BadLine
from flax_transformer.tasks.translation.inference.result import Translation

RUN = TESTS / 'golden' / 'number_words'
JSONL = ('--input-format', 'jsonl', '--format', 'jsonl')
Call = Callable[..., tuple[int, list[bytes], str]]


class UpperCase:
    """In place of a Translator; it takes prefixes of up to 9 characters."""

    source_language = 'in'

    def __call__(self, lines: list[str], prefixes: list[str] | None = None, **_: object) -> list[Translation]:
        for index, prefix in enumerate(prefixes or []):
            if len(prefix) > 9:
                raise BadLine(f'prefix {index + 1}', f'the prefix {prefix!r} is too long', index)
        begins = prefixes or [''] * len(lines)
        texts = [(prefix + line.upper()) if line.strip() else '' for prefix, line in zip(begins, lines, strict=True)]
        return [Translation(' '.join(text.splitlines()), -1.0, -1.0, 1) for text in texts]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, call_command: Callable) -> Call:
    """A function that translates lines: (exit code, lines of standard output, standard error)."""
    translate_by(UpperCase(), monkeypatch)

    def run(content: bytes, *options: str) -> tuple[int, list[bytes], str]:
        code, output, error = call_command('translate', RUN, *options, text=content)
        return code, output.encode().splitlines(keepends=True), error

    return run


@pytest.mark.parametrize(
    'member',
    [
        r'"id": "\ud800"',
        r'"\udfff": 1',
        '"x": 1e400',
        '"x": 123456789012345678901234567890.10',
        f'"x": {"9" * 5000}',
        r'"x": "\u0041\/"',
        '"x": 1, "x": 2',
        '"x" :[ 1,  {"b":2,"a":1}]',
        '"x": ' + '[' * 500 + ']' * 500,
    ],
    ids=str,
)
def test_other_fields_come_out_byte_for_byte_and_the_source_with_them(member: str, call: Call) -> None:
    given = f'{{"b": 1, "text": "one", {member}, "a": 2'
    code, output, _ = call(f'"first"\n{given}}}\n"last"\n'.encode(), *JSONL)
    assert (code, len(output)) == (0, 3)
    assert output[1].decode().startswith(f'{given}, "translation": "ONE", "score": -1.0')
    assert output[0].startswith(b'{"text": "first", "translation": "FIRST"')


def test_text_that_is_no_json_lines_has_its_source_too(call: Call) -> None:
    code, output, _ = call('süß "x"\n\n'.encode(), '--format', 'jsonl')
    assert code == 0
    assert [json.loads(line)['text'] for line in output] == ['süß "x"', '']
    assert output[0].decode().startswith('{"text": "süß \\"x\\"", "translation": "SÜSS')


def test_our_fields_replace_those_of_the_same_name(call: Call) -> None:
    _, output, _ = call(b'{"text": "a"}\n', *JSONL)
    assert call(output[0], *JSONL)[1] == output


def test_line_breaks_of_any_kind_within_a_record_are_escaped(call: Call) -> None:
    _, output, _ = call('{"text":\r"a", "x": ["\u2028\u2029\x85", \r1]}\r\n'.encode(), *JSONL)
    assert len(output[0].decode().splitlines()) == 1
    assert json.loads(output[0])['x'] == ['\u2028\u2029\x85', 1]


def test_what_is_not_unicode_is_replaced_and_flagged(call: Call) -> None:
    content = b'{"text": "\\ud800a"}\n{"text": "a", "prefix": "\\udc00"}\n{"text": "a", "x": "\xff"}\n{"text": "b"}\n'
    code, output, error = call(content, *JSONL, '--invalid', 'replace')
    found = [json.loads(line) for line in output]
    assert code == 0
    assert [one['replaced'] for one in found] == [True, True, True, False]
    assert [one['translation'] for one in found[:2]] == ['\ufffdA', '\ufffdA']
    assert found[2]['x'] == '\ufffd'
    assert 'U+FFFD: 3' in error


@pytest.mark.parametrize('bad', ['{"text": "d", "prefix": "more than nine"}', '{"text": "d", "x": NaN}', 'Infinity'])
def test_what_precedes_a_bad_line_in_its_chunk_is_written_first(bad: str, call: Call) -> None:
    good = b'"a"\n\n{"text": "c", "prefix": "p"}\n'
    code, output, error = call(good + bad.encode() + b'\n"e"\n', '--input-format', 'jsonl')
    assert (code, output) == (2, [b'A\n', b'\n', b'pC\n'])
    assert 'input line 4' in error


@pytest.mark.parametrize(
    ('line', 'got'),
    [
        ('{"text": "a"', 'is not JSON'),
        ('{"text": "a"} {', 'is not JSON'),
        ('{"text": nul}', 'is not JSON'),
        ('{"text": "a", "x": -Infinity}', 'is not JSON (-Infinity)'),
        ('[1]', 'is no record: got a list'),
        ('null', 'is no record: got null'),
        ('{"txt": "a"}', 'is no record: there is no field "text"'),
        ('{"text": 3}', 'is no record: got a number as "text"'),
        ('{"text": "a", "prefix": false}', 'is no record: got true or false as "prefix"'),
        pytest.param('[' * 100_000, 'is nested too deeply', id='nested'),
        pytest.param('{"text": "a", "x": ' + '{"x":' * 100_000, 'is nested too deeply', id='nested_field'),
    ],
)
def test_a_line_that_is_no_record_is_named(line: str, got: str) -> None:
    records = read_records([['"a"'], ['"b"', line]], 'jsonl')
    assert [record.text for record in next(records)] == ['a']
    assert [record.text for record in next(records)] == ['b']
    with pytest.raises(BadInput) as raised:
        next(records)
    assert str(raised.value).startswith(f'input line 3 {got}')


@pytest.mark.parametrize('count', [300, pytest.param(20_000, marks=pytest.mark.slow)])
def test_random_records_come_out_whole_and_in_order(count: int, call: Call) -> None:
    rng = np.random.default_rng(3)
    given = [random_record(rng) for _ in range(count)]
    content = b''.join(line + b'\n' for line in [*given, random_bad_record(rng)])
    code, output, error = call(b'\xef\xbb\xbf' + content, *JSONL)
    assert code == 2
    assert f'input line {count + 1} ' in error
    assert len(output) == count
    for line, one in zip(given, output, strict=True):
        check_record(line, one)


def test_a_chunk_of_long_lines_has_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, 'CHUNK_BYTES', 10)
    stream = io.BytesIO(b'a\nb\n' + b'x' * 50 + b'\nc\n')
    assert [len(chunk) for chunk in lines.chunks(stream)] == [3, 1]
