"""Those who end training in benchmarks/kill.py, and note how it ended."""

import collections
import contextlib
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from kill_lives import PHASES, Life, start

from flax_transformer.config import Config
from flax_transformer.engine.preemption import EXIT_CODE

STEPS = 40  # of a run
STEPS_PER_LIFE = 16
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
    """Ends the lives of runs of a config; counts how, where and with which exit codes."""

    def __init__(self, config: Config, folder: Path, rng: random.Random) -> None:
        self._config, self._folder, self._rng = config, folder, rng
        self.counts: collections.Counter[str] = collections.Counter()
        self.codes: dict[str, int] = collections.Counter()
        self.wrong: list[str] = []
        self._last_phase = ''

    def live(self, run: Path, *, is_killed: bool = True) -> int:
        """The exit code of a life in the run."""
        log = self._folder / 'log'
        log.unlink(missing_ok=True)
        if is_killed and self._rng.random() < 0.3:
            shutil.rmtree(run / 'data_cache', ignore_errors=True)  # as a user may: it is prepared again
        life = start(self._config, run, log)
        way, phase = (), ''
        if is_killed and self._wait(life):
            way = self._choose()
            phase = life.phase(run)
            self._end(life.pid, way)
        while is_killed and os.read(life.pipe, 4096):  # until it ends
            pass
        code = self._code(life.pid)
        os.close(life.pipe)
        self._note(way, phase, code, log.read_text(errors='replace'), run)
        return code

    def _wait(self, life: Life) -> bool:
        """Waits for a random moment of a random phase, or for STEPS_PER_LIFE steps; False if the life ends before."""
        names = list(PHASES)
        owed = self._last_phase == 'evaluating'  # then a checkpoint may be replaced
        target = 'replacing' if owed else self._rng.choice(names)
        left = 1 if target in ('starting', 'preparing', 'compiling', 'replacing') else self._rng.randint(1, 6)
        made = 0
        while True:
            for number in os.read(life.pipe, 1) or [None]:
                if number is None:
                    return False
                name = names[number]
                made += name == 'stepping'
                left -= name == target
                is_at_end = name == 'ending' and self._rng.random() < 0.6
                if is_at_end or not left or made == STEPS_PER_LIFE:
                    spread = PHASES['ending' if is_at_end else target]
                    return not select_end(life.pipe, self._rng.uniform(0.0, spread))

    def _choose(self) -> tuple[signal.Signals, ...]:
        return self._rng.choices(list(WAYS), [share for share, _ in WAYS.values()])[0]

    def _end(self, pid: int, way: tuple[signal.Signals, ...]) -> None:
        for number in way:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            if number != way[-1]:
                time.sleep(self._rng.choice([0.0, self._rng.uniform(0.0, 0.2)]))

    def _code(self, pid: int) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def _note(self, way: tuple[signal.Signals, ...], phase: str, code: int, log: str, run: Path) -> None:
        name = '+'.join(number.name for number in way) or 'none'
        self.codes[f'{name} {code}'] += 1
        self._last_phase = phase if code == EXIT_CODE else ''
        if way:
            self.counts[phase] += 1
        expected = WAYS[way][1] if way else {0}
        if phase == IN_PYTHON:
            return
        is_complete = (run / 'checkpoints' / str(self._config.training.steps)).exists()
        if code not in expected or (code == 0 and not is_complete):
            self.wrong.append(f'{name} in {phase}: exit code {code}\n{log[-3000:]}')
        elif 'Traceback' in log or 'Exception' in log:
            self.wrong.append(f'{name} in {phase}: a traceback\n{log[-3000:]}')


def is_caught(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal (Linux)."""
    with contextlib.suppress(OSError):
        mask = Path(f'/proc/{pid}/status').read_text().partition('SigCgt:')[2].split()[0]
        return bool(int(mask, 16) >> (number - 1) & 1)
    return True


def select_end(pipe: int, seconds: float) -> bool:
    """Whether a process closes its pipe within some seconds."""
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        if select.select([pipe], [], [], left)[0] and not os.read(pipe, 4096):
            return True
    return False


class RealKiller(Killer):
    """Ends `flax-transformer train` itself at any time."""

    seconds = 0.0  # that a life lasts that is left alone

    def live(self, run: Path, *, is_killed: bool = True) -> int:
        log = self._folder / 'log'
        file = self._folder / 'config.py'
        if not file.exists():
            arguments = f'Path({str(self._folder)!r}), {STEPS}, strategy={self._strategy!r}'
            file.write_text(
                f'import sys\nfrom pathlib import Path\n\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n'
                f'from kill_config import everything_on\n\n\ndef get_config():\n    return everything_on({arguments})\n'
            )
        command = [sys.executable, '-m', 'flax_transformer', 'train', str(file), '--workdir', str(run)]
        began = time.monotonic()
        with log.open('w') as opened:
            process = subprocess.Popen(command, stdout=opened, stderr=opened)
            way, phase = (), ''
            if is_killed:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(self._rng.uniform(0.1, self.seconds))
                if process.poll() is None:
                    way = self._choose()
                    phase = 'any time' if is_caught(process.pid, TERM) else IN_PYTHON
                    self._end(process.pid, way)
            code = process.wait()
        if not is_killed:
            self.seconds = time.monotonic() - began
        self._note(way, phase, code, log.read_text(errors='replace'), run)
        return code

    @property
    def _strategy(self) -> str:
        parallel = self._config.parallel
        return 'fsdp' if parallel.fsdp > 1 else parallel.strategy
