"""What several benchmarks share: peers that may be missing, processes that take turns, times, memory, pictures."""

import json
import multiprocessing
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar('T')


def missing(python: str, *packages: str) -> str:
    """Returns a sentence about the packages that an interpreter lacks, '' if it has them all."""
    script = 'import sys; from importlib.util import find_spec; print(*(p for p in sys.argv[1:] if not find_spec(p)))'
    done = subprocess.run([python, '-c', script, *packages], check=True, stdout=subprocess.PIPE, text=True)
    return f'not installed: {", ".join(done.stdout.split())}' if done.stdout.split() else ''


def run(*command: object) -> tuple[str, float]:
    """Runs a command; returns its standard output and the CPU seconds that it took. Ends the program if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f'{" ".join(map(str, command))} ended with {done.returncode}')
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def in_fork(function: Callable[..., T], *arguments: Any, **rest: Any) -> T:
    """Calls a function in a process of its own, a fork; this one must not touch a device."""
    with ProcessPoolExecutor(1, multiprocessing.get_context('fork')) as pool:
        return pool.submit(function, *arguments, **rest).result()


def write_config(file: Path, call: str) -> None:
    """Writes a config file that returns what a call gives: of a function that tests/ or benchmarks/ has."""
    module, _, call = call.partition('.')
    here = Path(__file__).resolve().parent
    folders = [str(here), str(here.parent / 'tests')]
    file.write_text(
        f'import sys\nfrom pathlib import Path\n\nsys.path[:0] = {folders!r}\nimport {module}\n\n'
        f'HERE = Path(__file__).parent\n\n\ndef get_config():\n    return {module}.{call}\n',
        encoding='utf-8',
    )


class Worker:
    """A process that answers each line on its standard input with a line of JSON."""

    def __init__(self, *command: str, **environment: str) -> None:
        pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'text': True}
        self._process = subprocess.Popen(command, env=os.environ | environment, **pipes)

    def ask(self, line: str = '') -> dict[str, Any]:
        self._process.stdin.write(f'{line}\n')
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            sys.exit(f'{" ".join(self._process.args)} ended')
        return json.loads(answer)

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def seconds_in_turn(
    functions: Mapping[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Calls all functions in each round, and once before; returns the seconds of each, by round."""
    seconds = {name: [] for name in functions}
    for _ in range(rounds + 1):
        for name, function in functions.items():
            began = clock()
            function()
            seconds[name].append(clock() - began)
    return {name: each[1:] for name, each in seconds.items()}


def peak_mib() -> int:
    """Returns the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def resident_mib() -> float:
    """Returns the memory that this process has now."""
    pages = int(Path('/proc/self/statm').read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def draw(file: str, panels: Sequence[tuple[dict[str, str], dict[str, dict[int, float]]]]) -> None:
    """Draws panels side by side: labels of the axes, and curves by name."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(panels), figsize=(9, 3.5), layout='constrained')
    for axis, (labels, curves) in zip(axes, panels, strict=True):
        for (name, curve), marker in zip(curves.items(), 'os', strict=False):
            axis.plot(list(curve), list(curve.values()), marker=marker, label=name)
        axis.set(**labels, xscale='log', ylim=(0, None))
        axis.set_xticks(list(curve), map(str, curve))
        axis.minorticks_off()
        if len(curves) > 1:
            axis.legend()
    figure.savefig(file, dpi=120)
