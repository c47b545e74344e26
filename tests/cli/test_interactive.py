"""`translate` for a person who types: an answer to each line at once, and ends that look as they should."""

import builtins
import io
import os
import pty
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from conftest import TESTS
from translators import translate_by

from flax_transformer.cli import lines as interactive
from flax_transformer.cli import main
from flax_transformer.tasks.translation import inspection
from flax_transformer.tasks.translation.inference.result import Translation
from flax_transformer.tasks.translation.inspection import draw

RUN = TESTS / 'golden' / 'number_words'
WELCOME = 'flax-transformer: type a line to translate; Ctrl-D ends\n'


class UpperCase:
    """In place of a Translator."""

    source_language = 'en'

    def __call__(self, lines: str | list[str], **_: object) -> list[Translation]:
        return [Translation(line.upper(), -1.0, -1.0, 1, token_ids=(1,)) for line in lines]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable]:
    """A function that types lines, each once the one before it is answered: (exit code, answers, standard error)."""
    translate_by(UpperCase(), monkeypatch)
    keyboard, terminal = pty.openpty()

    def run(keys: list[bytes], *options: str) -> tuple[int, bytes, str]:
        waiting = iter(keys)

        class Answers(io.BytesIO):
            def write(self, content: bytes) -> int:
                os.write(keyboard, next(waiting))
                return super().write(content)

        answers = Answers()
        monkeypatch.setattr(sys, 'stdin', os.fdopen(os.dup(terminal), encoding='utf-8'))
        monkeypatch.setattr(sys, 'stdout', io.TextIOWrapper(answers, encoding='utf-8', write_through=True))
        os.write(keyboard, next(waiting))
        with sys.stdin:
            code = main(['translate', str(RUN), *options])
        return code, answers.getvalue(), capsys.readouterr().err

    yield run
    os.close(keyboard)
    os.close(terminal)


def test_each_line_is_answered_before_the_next_is_typed(call: Callable) -> None:
    code, answers, error = call([b'one\n', b'\n', 'süß\n'.encode(), b'\x04'])
    assert (code, answers.decode()) == (0, 'ONE\n\nSÜSS\n')
    assert error == f'{WELCOME}en> en> en> en> \n'


def test_bytes_that_are_not_utf8_end_nothing(call: Callable) -> None:
    code, answers, error = call([b'\xff\n', b'a\n', b'\x04'])
    assert (code, answers.decode()) == (0, '\ufffd\nA\n')
    assert 'U+FFFD: 1' in error


def test_ctrl_c_ends_with_130_on_a_line_of_its_own(call: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(prompt: str) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(interactive, '_ask', ask)
    code, answers, error = call([b''])
    assert (code, answers) == (130, b'')
    assert error == f'{WELCOME}\nflax-transformer: interrupted\n'


def test_in_a_terminal_lines_are_asked_for_with_editing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    keys = iter(['a\udcff', UnicodeDecodeError('utf-8', b'b\xff', 1, 2, ''), '', EOFError()])

    def read(prompt: str) -> str:
        assert prompt == 'en> '
        key = next(keys)
        if isinstance(key, Exception):
            raise key
        return key

    monkeypatch.setattr(sys, 'stdout', Terminal())
    monkeypatch.setattr(builtins, 'input', read)
    assert list(interactive.typed_lines('en> ')) == [[b'a\xff'], [b'b\xff'], ['']]


def test_a_wait_is_explained_only_where_it_is_long(monkeypatch, capsys) -> None:
    with interactive.explained_if_slow('thinking'):
        pass
    monkeypatch.setattr(interactive, 'SLOW', 0.0)
    with interactive.explained_if_slow('compiling'):
        while not (said := capsys.readouterr().err):
            time.sleep(0.001)
    assert said == 'flax-transformer: compiling ...\n'


def test_a_map_is_drawn_under_each_answer(call: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    maps = iter(['map 1', None])
    monkeypatch.setattr(inspection, 'attention_text', lambda *_: next(maps))
    code, answers, error = call([b'one\n', b'two\n', b'\x04'], '--show-attention')
    assert (code, answers) == (0, b'ONE\nTWO\n')
    assert error == f'{WELCOME}en> map 1\nen> en> \n'


PIECES = ['▁for', 'ty', '-', '▁two', '▁长句子', 'e\u0301', '\x07', '</s>']


@pytest.mark.parametrize('width', [200, 30, 20, 12, 8])
def test_a_map_fits_the_terminal(width: int) -> None:
    lines = draw(PIECES * 2, PIECES, np.eye(8, 16), width).split('\n')
    assert len(lines) == 1 + len(PIECES)
    assert all(line.isprintable() for line in lines)
    assert max(map(inspection._columns, lines)) <= width
    assert ('…' in lines[0]) == (width < 30)
    assert '█' in lines[1]
