"""Training that is killed again and again must end as if nothing had happened, to the bit.

    python benchmarks/kill.py [--kills 1000] [--strategy pmap mesh fsdp] [--real 30] [--model table] [--seed 0]

A tiny model trains with all that has a state or draws at random switched on: dropout, a moving average, a mixture of
two corpora by weights, BPE-dropout, evaluations, on two simulated devices. It saves every second step, keeps one or two
checkpoints, and is ended at random moments of every phase (kill_lives.PHASES), by SIGKILL, SIGTERM and SIGINT, once,
twice, or SIGTERM and then SIGKILL. Each life is a fork of this process, which has imported everything and touched no
device. `--real` of the kills are of `flax-transformer train` itself, at any time from its start, imports included;
they train the Transformer with everything that it has, R-Drop and two passes a step among them. For the forks a table
of vectors takes its place unless --model says otherwise, since all that it would do here is compile.

Each time that a run reaches its last step it is compared with one that was left alone, and another begins. Prints one
line of JSON for each strategy and one for their sum: the runs, the kills, how many hit which phase by which signals,
the exit codes, and what was not as it should be ([]: nothing):
- parameters, moments, average, data position, metrics (but for times), the best checkpoint;
- metrics.jsonl repeats no record, and no file or folder is left of what was interrupted;
- exit codes are 75 after SIGTERM and SIGINT, 130 after a second SIGINT, or 0 where the run was complete;
- no traceback.
"""

import argparse
import collections
import contextlib
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault('JAX_PLATFORMS', 'cpu')
os.environ.setdefault('JAX_DISABLE_MOST_OPTIMIZATIONS', '1')  # compiling takes longer than running

import jax
import numpy as np
from kill_config import everything_on, table_instead_of_transformer
from kill_lives import PHASES, Life, start

from flax_transformer.config import Config
from flax_transformer.engine.devices.devices import prepare_devices
from flax_transformer.engine.monitor.reporter import METRICS_FILE, read_metrics
from flax_transformer.engine.preemption import EXIT_CODE
from flax_transformer.engine.runs.checkpoints import Checkpoints
from flax_transformer.tasks.translation.task import make_trainer

STEPS = 40  # of a run
STEPS_PER_LIFE = 16
TIMES = {
    'time',
    'seconds',
    'target_tokens_per_second',
    'target_slots_per_second',
    'matrix_peak',
    'seconds_per_step',
    'data_wait',
}
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


def differences(ours: Path, expected: Path, config: Config) -> list[str]:
    """What differs in the last checkpoints and the metrics of two runs of a config."""
    trainer = make_trainer(config)
    found, ends, best = [], [], []
    for run in (ours, expected):
        with contextlib.closing(Checkpoints(run / 'checkpoints', read_only=True)) as checkpoints:
            ends.append(checkpoints.restore(trainer.shapes))
            best.append(checkpoints.best())
    (state, position), (expected_state, expected_position) = ends
    leaves = zip(
        jax.tree_util.tree_leaves_with_path(state), jax.tree_util.tree_leaves_with_path(expected_state), strict=True
    )
    for (path, leaf), (_, other) in leaves:
        if np.asarray(leaf).tobytes() != np.asarray(other).tobytes():
            found.append(jax.tree_util.keystr(path, simple=True, separator='/'))
    for each in (position, expected_position):
        for name in ('seconds', 'waited'):
            del each['progress']['window'][name]
    found += ['position'] * (position != expected_position) + ['best checkpoint'] * (best[0] != best[1])
    metrics, expected_metrics = (
        [{name: value for name, value in record.items() if name not in TIMES} for record in read_metrics(run)]
        for run in (ours, expected)
    )
    return found + ['metrics'] * (metrics != expected_metrics)


def leftovers(run: Path) -> list[str]:
    """Repeated or torn records, and what is left of interrupted work."""
    records = [json.loads(line) for line in (run / METRICS_FILE).read_text().splitlines()]
    names = [(record['kind'], record['step']) for record in records]
    found = ['repeated metrics'] * (len(set(names)) < len(names))
    steps = [file for file in (run / 'checkpoints').iterdir() if not file.name.isdecimal()]
    others = [run / name for name in ('replaced_checkpoint', 'damaged_checkpoints', 'deleted_checkpoints')]
    return (
        found
        + [f'{file.name} is left' for file in steps + others if file.exists()]
        + [f'{file.name} is left' for file in run.rglob('*.partial')]
    )


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


def kill_again_and_again(
    folder: Path, kills: int, *, strategy: str, seed: int = 0, is_real: bool = False, is_table: bool = True
) -> dict[str, Any]:
    """Kills so many lives of runs, and compares each run at its end with one that was left alone."""
    began, rng = time.monotonic(), random.Random(f'{seed} {strategy} {is_real}')
    config = everything_on(folder, STEPS, strategy=strategy)
    cache = str(folder / 'compiled')
    os.environ['JAX_COMPILATION_CACHE_DIR'], os.environ['JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS'] = cache, '0'
    jax.config.update('jax_compilation_cache_dir', cache)
    jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.0)
    if is_table and not is_real:
        config = replace(
            config,
            parallel=replace(config.parallel, max_tokens_per_device=0),
            training=replace(config.training, r_drop_alpha=0.0),
        )
        table_instead_of_transformer()
    killer = (RealKiller if is_real else Killer)(config, folder, rng)
    alone, runs = folder / 'alone', 0
    killer.live(alone, is_killed=False)
    while (killer.counts.total() < kills or runs == 0) and len(killer.wrong) < 5:
        run = folder / f'killed {runs + 1}'
        before = len(killer.wrong)
        while killer.live(run, is_killed=killer.counts.total() < kills) != 0:
            pass
        runs += 1
        for what in in_fork(lambda run=run: leftovers(run) + compared(run, alone, config)):
            killer.wrong.append(f'run {runs}: {what}')
        print(f'{strategy}: {runs} runs, {killer.counts.total()} kills, wrong: {len(killer.wrong)}', file=sys.stderr)
        if len(killer.wrong) == before:  # else it stays to be looked at
            shutil.rmtree(run)
    return {
        'strategy': strategy + ', real processes' * is_real,
        'kills': killer.counts.total(),
        'runs': runs,
        'phases': dict(killer.counts.most_common()),
        'codes': dict(killer.codes.most_common()),
        'differ': killer.wrong,
        'seconds': round(time.monotonic() - began),
    }


def compared(run: Path, alone: Path, config: Config) -> list[str]:
    prepare_devices(config.parallel.num_devices)
    return differences(run, alone, config)


def in_fork(function: Any) -> Any:
    """What the function returns in a process of its own; JSON."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(read)
        with open(write, 'w') as opened:
            try:
                json.dump(function(), opened)
            except BaseException as error:
                json.dump([repr(error)], opened)
        os._exit(0)
    os.close(write)
    with open(read) as opened:
        found = json.loads(opened.read() or '["no answer"]')
    os.waitpid(pid, 0)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--kills', type=int, default=1000)
    parser.add_argument('--real', type=int, default=30)
    parser.add_argument('--strategy', nargs='+', choices=('pmap', 'mesh', 'fsdp'), default=['pmap', 'mesh', 'fsdp'])
    parser.add_argument('--model', choices=('table', 'transformer'), default='table')
    parser.add_argument('--seed', type=int, default=0)
    options = parser.parse_args()
    parts, found = len(options.strategy), []
    for number, strategy in enumerate(options.strategy):
        for kills, is_real in ((options.kills - options.real, False), (options.real, True)):
            share = kills // parts + (number < kills % parts)
            if share <= 0:
                continue
            folder = Path(tempfile.mkdtemp(prefix='kill_'))
            settings = {'strategy': strategy, 'seed': options.seed, 'is_real': is_real}
            is_table = options.model == 'table'
            result = in_fork(lambda: kill_again_and_again(folder, share, is_table=is_table, **settings))  # noqa: B023
            print(json.dumps(result), flush=True)
            found.append(result)
            if not result['differ']:
                shutil.rmtree(folder)
    total = {'kills': sum(each['kills'] for each in found), 'runs': sum(each['runs'] for each in found)}
    phases = sum((collections.Counter(each['phases']) for each in found), collections.Counter())
    print(json.dumps(total | {'phases': dict(phases.most_common()), 'differ': sum(bool(e['differ']) for e in found)}))


if __name__ == '__main__':
    main()
