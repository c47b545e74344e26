"""A command's process ends as it should wherever Ctrl-C comes, and with closed streams; nothing is lost."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

PROGRAM = """
import atexit, os, signal, sys, time
from flax_transformer.cli.process import run
interrupt = lambda: os.kill(os.getpid(), signal.SIGINT)

def main():
    atexit.register(lambda: print('cleaned up'))
    print('printed')
{body}

class Crash:
    def __del__(self):
        os._exit(139)  # extension modules may end so in the teardown

crash = Crash()
run(main, {options})
"""
BODIES = {
    'plain': 'interrupt()',
    'what_a_library_makes_of_it': """
try:
    interrupt()
except KeyboardInterrupt:
    raise RuntimeError('import failed')""",
    'reported_as_a_mistake': """
try:
    interrupt()
except KeyboardInterrupt:
    return 2""",
    'in_a_destructor': """
class Interrupted:
    def __del__(self):
        interrupt()
Interrupted()
time.sleep(20)""",
    'amid_an_import': """
exec(compile('interrupt()', '<frozen importlib._bootstrap>', 'exec'), globals())
time.sleep(20)""",
    'while_a_thread_waits': """  # Orbax's threads do, for minutes
import threading
threading.Thread(target=time.sleep, args=[100]).start()
interrupt()""",
    'twice': """
try:
    interrupt()
finally:
    interrupt()""",
}

COMPILING = """
import types
from contextlib import nullcontext
from flax_transformer.engine.preemption import stop_on_signals
from flax_transformer.cli import main as flax_transformer

class Program:
    def __del__(self):
        print('freed')

def compile_in_a_thread(_):
    program = Program()
    with {handlers} as stop:
        interrupt()

sys.modules['flax_transformer.cli.plan'] = types.SimpleNamespace(show=compile_in_a_thread)
return flax_transformer(['show'])"""


def run(body: str, options: str = '') -> subprocess.CompletedProcess:
    indented = body.strip().replace('\n', '\n    ')
    program = PROGRAM.format(body=f'    {indented}', options=options)
    return subprocess.run([sys.executable, '-c', program], cwd=ROOT, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize('body', BODIES.values(), ids=BODIES)
def test_ctrl_c_ends_with_130_and_without_a_traceback(body: str) -> None:
    done = run(body)
    assert (done.returncode, done.stdout) == (130, 'printed\n'), done.stderr
    assert 'Traceback' not in done.stderr
    assert 'ignored' not in done.stderr


@pytest.mark.parametrize(
    ('handlers', 'code'), [('nullcontext()', 130), ('stop_on_signals()', 75)], ids=['command', 'training']
)
def test_what_a_thread_of_xla_may_be_compiling_is_never_freed(handlers: str, code: int) -> None:
    done = run(COMPILING.format(handlers=handlers))
    assert (done.returncode, done.stdout) == (code, 'printed\n'), done.stderr


@pytest.mark.parametrize('number', ['SIGINT', 'SIGTERM'])
def test_training_without_handlers_of_its_own_has_nothing_to_lose(number: str) -> None:
    done = run(f'os.kill(os.getpid(), signal.{number}); time.sleep(20)', 'is_training=True')
    assert (done.returncode, done.stdout) == (75, 'printed\n')
    assert done.stderr == f'{number}: stopped; the same command goes on\n'


def test_other_ends_are_those_of_python() -> None:
    assert run('').returncode == 139, 'the sign that the teardown was not skipped'
    sound = 'del Crash.__del__\n'
    done = run(f"{sound}raise RuntimeError('a bug')")
    assert (done.returncode, done.stdout) == (1, 'printed\ncleaned up\n')
    assert done.stderr.endswith('RuntimeError: a bug\n')
    assert run(f"{sound}raise SystemExit('what is wrong')").stderr == 'what is wrong\n'
    assert run(f'{sound}signal.signal(signal.SIGINT, signal.SIG_IGN); return interrupt() or 3').returncode == 3
    assert run('return 75').returncode == 75


def test_the_commands_start_importing_where_ctrl_c_is_caught() -> None:
    """Each import before that would be a place where Ctrl-C prints a traceback."""
    script = 'import sys; before = set(sys.modules); import flax_transformer.cli; print(*set(sys.modules) - before)'
    done = subprocess.run([sys.executable, '-c', script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {'flax_transformer', 'flax_transformer.cli'}


@pytest.mark.slow
def test_compiling_is_interrupted() -> None:
    """benchmarks/interrupts.py does the same to every command."""
    command = [sys.executable, str(ROOT / 'benchmarks' / 'interrupts.py'), '--tries', '3', '--caches', 'cold']
    done = subprocess.run([*command, '--commands', 'warmup'], capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result['unsound'] == 0, result
    assert str(128 + signal.SIGINT) in result['commands']['warmup cold']['codes']


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
    code = 0 if 'standard output is closed' in str(error) else 99
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
