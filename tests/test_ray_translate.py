"""The example of bulk translation on Ray Data, with a worker killed on the way."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, TESTS

from flax_transformer import Translator

RUN = TESTS / 'golden' / 'number_words'

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec('ray') is None, reason='ray is not installed'),
]


def test_each_line_comes_back_once_and_in_order_though_a_worker_is_killed(tmp_path: Path) -> None:
    digits = ['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine']
    lines = [f'{a} hundred and {b}ty-{c}' for a in digits for b in ('six', 'seven', 'nine') for c in digits]
    (tmp_path / 'in').mkdir()
    inputs = {'part-1': lines, 'part-2': [], 'part-3': lines[::-1] * 2}
    for name, content in inputs.items():
        (tmp_path / 'in' / name).write_text(''.join(f'{line}\n' for line in content))
    script, pattern = ROOT / 'examples' / 'ray_translate.py', tmp_path / 'in' / 'part-*'
    command = [sys.executable, script, RUN, pattern, tmp_path / 'out', '--workers', '2', '--batch', '64']
    command += ['--cpus-per-worker', '0.5']
    environment = os.environ | {'PYTHONPATH': str(ROOT), 'RAY_DEDUP_LOGS': '0', 'RAY_USAGE_STATS_ENABLED': '0'}
    workers: list[int] = []
    said: list[str] = []
    with subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        for line in process.stdout:
            said.append(line)
            if match := re.search(r'worker (\d+) has translated \d+ lines', line):
                workers.append(int(match[1]))
                if len(workers) == 1:
                    os.kill(workers[0], signal.SIGKILL)
    output = ''.join(said)
    assert process.returncode == 0, output
    assert len(set(workers)) >= 2, output
    translations = dict(zip(lines, Translator.from_run(RUN)(lines), strict=True))
    for name, content in inputs.items():
        assert f'{name}: {len(content)} lines in, {len(content)} lines out, in order' in output
        expected = ''.join(f'{translations[line].text}\n' for line in content)
        assert (tmp_path / 'out' / name).read_text() == expected
