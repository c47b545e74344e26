"""JSON Lines as the world sends them, by the seed; and what must be true of what comes out. For a test and a fuzzer."""

import json
from typing import Any

import numpy as np
from random_lines import random_line

OURS = {'translation', 'score', 'log_prob', 'num_tokens', 'tokens', 'token_ids', 'token_log_probs'}
OURS |= {'truncated', 'split', 'repetition', 'untranslated', 'replaced', 'missing', 'quality', 'word_quality'}
_VALUES = ['1e400', '-0', '0.10', '1E+2', '123456789012345678901234567890', '9' * 5000, 'null', 'true', '[]', '{}']
_VALUES += [
    '"\\ud800"',
    '"\\udc00\\ud800"',
    '"\\ud83d\\ude00"',
    '"\\/\\u0041\\n"',
    '"\x7f\u2028\u2029\x85"',
    '"😀"',
    '""',
]
_VALUES += ['[1 ,\r2,\t{"a" : [ ] , "a":1}]', '{"text": 3, "": "}{,:\\""}', '[' * 90 + ']' * 90, '"' + 'y' * 3000 + '"']
_NAMES = ['id', '"', '', 'Text', 'te\u0301xt', '😀', '\ud800', 'x' * 300, 'score', 'translation', 'note', 'note']
_BAD = ['{', '[1]', 'null', '3', 'nul', '{"text": NaN}', '{"text": "a"} x', '{"text": "a",}', '{"text": "a" "b"}', '\\']
_BAD += ['{"text": 3}', '{"txt": "a"}', '{"text": "a", "prefix": []}', '{"text": "a", "x": Infinity}', "{'text': 'a'}"]
_BAD += [
    '{"text": "\t"}',
    '{"text": "a',
    '{"text": "a", "x": ' + '[' * 100_000,
    '"a" "b"',
    '{"text": null}',
    '{,}',
    '{"a"}',
]


def random_record(rng: np.random.Generator) -> bytes:
    """A line of JSON Lines that can be translated, without its line feed: an object, a string, or blank."""
    kind = rng.integers(0, 100)
    if kind < 3:
        return rng.choice([b'', b' \t', b'\r'])
    text = random_line(rng).decode('utf-8', 'replace')
    if kind < 6:
        return _string(rng, text).encode()
    members = [('text', _string(rng, text))]
    if kind < 12:
        members.append(('prefix', rng.choice(['null', '""', '"the"', '"\\ud800"', '"x x x x"'])))
    for _ in range(rng.integers(0, 4)):
        members.append((str(rng.choice(_NAMES)), str(rng.choice(_VALUES))))
    if kind == 99:
        members.append(('text', '"the last one counts"'))
    space = lambda: rng.choice(['', '', ' ', '\t \r'])
    texts = [f'{space()}{_string(rng, name)}{space()}:{space()}{value}{space()}' for name, value in members]
    order = rng.permutation(len(texts)) if kind < 99 else range(len(texts))
    line = space() + '{' + ','.join(texts[i] for i in order) + '}' + space()
    return line.encode()


def random_bad_record(rng: np.random.Generator) -> bytes:
    """A line of JSON Lines that must be refused."""
    return str(rng.choice(_BAD)).encode()


def check_record(line: bytes, output: bytes) -> None:
    """Raises AssertionError unless the output is the line's object with our fields, on one line for any reader."""
    assert len(output.decode('utf-8').splitlines()) == 1, output
    made = json.loads(output, object_pairs_hook=list, **_EXACT)
    given = json.loads(line, object_pairs_hook=list, **_EXACT) if line.strip() else ''
    given = [('text', given)] if isinstance(given, str) else given
    expected = [member for member in given if member[0] not in OURS]
    assert made[: len(expected)] == expected, (line, output)
    names = [name for name, _ in made[len(expected) :]]
    assert set(names) == OURS, (line, output)
    assert len(names) == len(OURS), (line, output)
    found = dict(made)
    assert len(found['translation'].splitlines()) <= 1, output
    text, prefix = dict(expected)['text'], dict(expected).get('prefix') or ''
    assert (found['translation'] == '') >= (not text.strip()), (line, output)
    is_unicode = not any('\ud800' <= character <= '\udfff' for character in text + prefix)
    assert found['replaced'] != is_unicode, (line, output)


def _refuse(word: str) -> Any:
    raise AssertionError(f'{word} is not JSON')


_EXACT = {'parse_int': lambda digits: ('number', digits), 'parse_float': lambda digits: ('number', digits)}
_EXACT['parse_constant'] = _refuse


def _string(rng: np.random.Generator, text: str) -> str:
    return json.dumps(text, ensure_ascii=bool(rng.integers(2)) or any('\ud800' <= c <= '\udfff' for c in text))
