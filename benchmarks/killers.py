"""Lives of training processes in benchmarks/kill.py: how they begin, when and how they are ended, and how they end."""

import collections
import contextlib
import multiprocessing
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

from absl import logging

from flax_transformer.cli import process
from flax_transformer.common.errors import EXIT_CODE, Interrupted
from flax_transformer.config import Config
from flax_transformer.tasks.api import train

STEPS = 40  # each run has as many
MOST_CHANGES = 8  # one life makes no more; a save makes about four
LONGEST_SAVE = 0.06  # seconds
TERM, INT, KILL = signal.SIGTERM, signal.SIGINT, signal.SIGKILL
# How to end a process, how often of 12, and the exit codes that are right; 0 only where the run is complete.
WAYS = {
    (KILL,): (5, {-KILL}),
    (TERM,): (2, {EXIT_CODE, 0}),
    (INT,): (2, {EXIT_CODE, 0}),
    (TERM, TERM): (1, {EXIT_CODE, 0}),
    (INT, INT): (1, {EXIT_CODE, 130, 0}),
    (TERM, KILL): (1, {EXIT_CODE, -KILL, 0}),
}
IN_PYTHON = 'start of Python'  # until our code runs, a signal does what Python, or the system, does


class Killer:
    """Ends the lives of runs of a config at random; counts how, where and with which exit codes."""

    def __init__(self, config: Config, file: Path, folder: Path, rng: random.Random, *, is_real: bool) -> None:
        self._config, self._file, self._folder, self._rng = config, file, folder, rng
        self._is_real = is_real
        self._seconds = 0.0  # that a life lasts that is left alone
        self.counts: collections.Counter[str] = collections.Counter()
        self.codes: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []

    def live(self, run: Path, *, is_killed: bool = True) -> int:
        """Trains until the end or a kill; returns the exit code."""
        log = self._folder / 'log'
        log.unlink(missing_ok=True)
        if is_killed and self._rng.random() < 0.3:
            shutil.rmtree(run / 'data_cache', ignore_errors=True)  # a user may do so: it is prepared again
        began = time.monotonic()
        target, given = (_command, self._file) if self._is_real else (_fork, self._config)
        life = multiprocessing.get_context('fork').Process(target=target, args=(given, run, log))
        life.start()
        way, phase = (), ''
        if is_killed and self._wait(life, run):
            way = self._rng.choices(list(WAYS), [share for share, _ in WAYS.values()])[0]
            phase = phase_of(run) if is_caught(life.pid, TERM) else IN_PYTHON
            self._end(life.pid, way)
        life.join()
        if not is_killed:
            self._seconds = time.monotonic() - began
        self._note(way, phase, life.exitcode, log.read_text(errors='replace'), run)
        return life.exitcode

    def _wait(self, life: multiprocessing.Process, run: Path) -> bool:
        """Waits for any moment of a life, or until shortly after a change of its files; False if it ends before."""
        if self._rng.random() < 0.3:
            life.join(self._rng.uniform(0.0, self._seconds))
        else:
            left, seen = self._rng.randint(1, MOST_CHANGES), files_of(run)
            while left and life.is_alive():
                time.sleep(0.0005)
                found = files_of(run)
                left -= found != seen
                seen = found
            life.join(self._rng.choice([0.0, self._rng.uniform(0.0, LONGEST_SAVE)]))
        return life.is_alive()

    def _end(self, pid: int, way: tuple[signal.Signals, ...]) -> None:
        for number in way:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            if number != way[-1]:
                time.sleep(self._rng.choice([0.0, self._rng.uniform(0.0, 0.2)]))

    def _note(self, way: tuple[signal.Signals, ...], phase: str, code: int, log: str, run: Path) -> None:
        name = '+'.join(number.name for number in way) or 'none'
        self.codes[f'{name} {code}'] += 1
        if way:
            self.counts[phase] += 1
        expected = WAYS[way][1] if way else {0}
        if phase == IN_PYTHON:
            return
        is_complete = (run / 'checkpoints' / str(STEPS)).exists()
        has_ended = code == 0 and is_complete  # before the signal came, whichever it was
        if not has_ended and (code == 0 or code not in expected):
            self.wrong.append(f'{name} in {phase}: exit code {code}\n{log[-3000:]}')
        elif 'Traceback' in log or 'Exception' in log:
            self.wrong.append(f'{name} in {phase}: a traceback\n{log[-3000:]}')


def _fork(config: Config, run: Path, log: Path) -> None:
    """Trains as the command does, in a process that has imported everything and touched no device."""
    _redirect(log)

    def main() -> int:
        config.parallel.prepare_devices()
        logging.set_verbosity(logging.FATAL)
        try:
            train(config, run, exit_at_second=True)
        except Interrupted as stopped:
            print(stopped, file=sys.stderr)
            return EXIT_CODE
        return 0

    try:
        process.run(main, is_training=True)
    except SystemExit as left:
        os._exit(left.code)


def _command(file: Path, run: Path, log: Path) -> None:
    _redirect(log)
    os.execv(sys.executable, [sys.executable, '-m', 'flax_transformer', 'train', str(file), '--workdir', str(run)])


def _redirect(log: Path) -> None:
    opened = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(opened, stream)


def files_of(run: Path) -> tuple[list[str], ...]:
    """Returns what changes in a run while it saves, replaces and deletes checkpoints, and when it writes metrics."""
    found = []
    for folder in (run, run / 'checkpoints', run / 'deleted_checkpoints'):
        with contextlib.suppress(OSError):
            found.append(sorted(os.listdir(folder)))
    with contextlib.suppress(OSError):
        found.append([str((run / 'metrics.jsonl').stat().st_size)])
    return tuple(found)


def phase_of(run: Path) -> str:
    """Returns what a process that trains does, as far as its files say; of several, the rarest."""
    signs = {
        'deleting': 'deleted_checkpoints/*',
        'replacing': 'replaced_checkpoint',
        'last save': f'checkpoints/{STEPS}*',
        'saving': 'checkpoints/*.orbax-checkpoint-tmp*',
        'between saves': 'checkpoints/*',
    }
    return next((name for name, sign in signs.items() if any(run.glob(sign))), 'before the first save')


def is_caught(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal (Linux)."""
    with contextlib.suppress(OSError):
        mask = Path(f'/proc/{pid}/status').read_text().partition('SigCgt:')[2].split()[0]
        return bool(int(mask, 16) >> (number - 1) & 1)
    return True
