"""A command's process ends as it should wherever Ctrl-C comes: code 130, no traceback, nothing lost."""

import json
import signal
import subprocess
import sys

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
        os._exit(139)  # as extension modules do in the teardown

crash = Crash()
run(main)
"""
BODIES = {
    'plain': 'interrupt()',
    'what_a_library_makes_of_it': """
try:
    interrupt()
except KeyboardInterrupt:
    raise RuntimeError('import failed')""",
    'in_a_destructor': """
class Interrupted:
    def __del__(self):
        interrupt()
Interrupted()
time.sleep(20)""",
    'reported_as_a_mistake': """
try:
    interrupt()
except KeyboardInterrupt:
    return 2""",
    'amid_an_import': """
exec(compile('interrupt(); print("imported")', '<frozen importlib._bootstrap>', 'exec'), globals())
time.sleep(20)""",
    'twice': """
try:
    interrupt()
finally:
    interrupt()""",
}

COMPILING = """
import types
from flax_transformer.cli import main as flax_transformer

class Program:
    def __del__(self):
        print('freed')

def compile_in_a_thread(_):
    program = Program()
    {interrupt}

sys.modules['flax_transformer.cli.show'] = types.SimpleNamespace(main=compile_in_a_thread)
return flax_transformer(['show'])"""


def run(body: str) -> subprocess.CompletedProcess:
    indented = body.strip().replace('\n', '\n    ')
    program = PROGRAM.format(body=f'    {indented}')
    return subprocess.run([sys.executable, '-c', program], cwd=ROOT, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize('body', BODIES.values(), ids=BODIES)
def test_ctrl_c_ends_with_130_and_without_a_traceback(body: str) -> None:
    done = run(body)
    whole = 'imported\n' if 'imported' in body else ''  # an import is not cut short
    assert (done.returncode, done.stdout) == (130, f'printed\n{whole}cleaned up\n'), done.stderr
    assert 'Traceback' not in done.stderr
    assert 'ignored' not in done.stderr


@pytest.mark.parametrize(
    ('interrupt', 'code'),
    [('interrupt()', 130), ('from flax_transformer.engine.preemption import Interrupted; raise Interrupted', 75)],
    ids=['ctrl_c', 'asked_to_save'],
)
def test_what_a_thread_of_xla_may_be_compiling_is_never_freed(interrupt: str, code: int) -> None:
    done = run(COMPILING.format(interrupt=interrupt))
    assert (done.returncode, done.stdout) == (code, 'printed\ncleaned up\n'), done.stderr


def test_a_thread_that_waits_for_what_was_interrupted_is_not_waited_for() -> None:
    """Orbax's threads are not daemons, and wait for minutes."""
    done = run("""
import threading
from flax_transformer.cli import process
process._GRACE = 0.1
threading.Thread(target=time.sleep, args=[100]).start()
interrupt()""")
    assert (done.returncode, done.stdout) == (130, 'printed\n'), done.stderr


def test_other_ends_are_those_of_python() -> None:
    assert run('del globals()["crash"]').returncode == 139, 'the sign that the teardown was not skipped'
    done = run("raise RuntimeError('a bug')")
    assert (done.returncode, done.stdout) == (1, 'printed\ncleaned up\n')
    assert done.stderr.endswith('RuntimeError: a bug\n')
    assert run("raise SystemExit('what is wrong')").stderr == 'what is wrong\n'
    assert run('return 75').returncode == 75
    assert run('signal.signal(signal.SIGINT, signal.SIG_IGN); return interrupt() or 3').returncode == 3


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
