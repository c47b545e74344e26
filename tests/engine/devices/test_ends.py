"""Two processes end with the right exit codes on a loaded machine, in whatever way they end."""

import json
import subprocess
import sys

import pytest
from conftest import ROOT

SCRIPT = ROOT / 'benchmarks' / 'ends.py'
WAYS = {  # pairs of processes
    'done': 40,
    'user_error': 2,
    'user_error_in_0': 2,
    'user_error_in_1': 2,
    'exception_in_1': 2,
    'exit_in_1': 2,
    'ctrl_c': 2,
    'sigterm_in_training': 4,
    'sigterm': 4,
    'sigterm_in_0': 2,
    'sigterm_in_1': 2,
    'killed_1': 2,
    'without_together': 4,
    'ctrl_c_outside': 4,
}


@pytest.mark.slow
@pytest.mark.parametrize('way', WAYS)
def test_two_processes_end_with_the_right_codes(way: str) -> None:
    """A watch that still waits when the interpreter ends would abort a process that has succeeded, with code -6."""
    command = [sys.executable, str(SCRIPT), '--way', way, '--pairs', str(WAYS[way]), '--load', '4']
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result['unexpected'] == 0, result
