"""Commands whose standard streams are closed, as some daemons start them."""

import subprocess
import sys
from pathlib import Path

from conftest import ROOT

CODE = """
import os, sys
from flax_transformer.cli import main
code = main(['--help'])
assert os.open('file', os.O_CREAT | os.O_WRONLY) > 2
print('text')
print('text', file=sys.stderr)
from flax_transformer.cli.lines import LineWriter
try:
    LineWriter(None)
except ValueError as error:
    code = 0 if 'standard output is closed; give --output' in str(error) else 99
else:
    code = 98
sys.exit(code)
"""


def test_a_closed_stream_is_the_null_device(tmp_path: Path) -> None:
    """The first file that is opened would have its number, and get what is written to the stream."""
    command = ['sh', '-c', 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable, CODE]
    done = subprocess.run(
        command, cwd=tmp_path, env={'PYTHONPATH': str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert 'Traceback' not in done.stderr
    assert (tmp_path / 'file').read_bytes() == b''
