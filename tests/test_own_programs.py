"""The programs in docs/how-to/your_own_program.md print what their last comments say."""

import ast
import asyncio
import functools
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, TESTS

from flax_transformer import Translator

PAGE = (ROOT / 'docs' / 'how-to' / 'your_own_program.md').read_text(encoding='utf-8')
PROGRAMS = dict(re.findall(r'^## ([^\n]+)\n(?:(?!^## ).)*?```python\n(.*?)```', PAGE, re.M | re.S))
shared = functools.cache(Translator.from_run.__func__)  # programs of the same settings share what they compile


@pytest.mark.parametrize(
    'name', [pytest.param(name, marks=[pytest.mark.slow] * (name == 'Processes')) for name in PROGRAMS]
)
@pytest.mark.slow_cases('Before the first user', 'Flax NNX', 'Within your own jit')
def test_a_program_prints_what_the_page_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PROGRAMS[name]
    (tmp_path / 'runs').symlink_to(TESTS / 'golden')
    monkeypatch.chdir(tmp_path)
    if '__main__' in text:
        (tmp_path / 'mine.py').write_text(text)
        env = os.environ | {'PYTHONPATH': str(ROOT)}
        done = subprocess.run([sys.executable, 'mine.py'], capture_output=True, text=True, env=env, timeout=240)
        printed, error = done.stdout, done.stderr
    else:
        monkeypatch.setattr(Translator, 'from_run', classmethod(shared))
        code = compile(text, name, 'exec', flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        found = eval(code, {'__name__': 'mine'})
        if inspect.iscoroutine(found):
            asyncio.run(found)
        printed, error = capsys.readouterr()
    assert printed.splitlines() == [line[2:] for line in text.rpartition('\n\n')[2].splitlines()], error
