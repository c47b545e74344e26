"""Running a command to its end, with what it took."""

import contextlib
import os
import platform
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple


class Ended(NamedTuple):
    """How a command ended."""

    exit_code: int
    cpu_seconds: float  # of the process and those it has waited for
    seconds: float


def call(command: Sequence[str], *, stdout: IO[bytes] | int | None = None) -> Ended:
    """Runs the command and forwards SIGTERM and Ctrl-C to it."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=stdout)
    with _passing_signals_to(process.pid):
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu_seconds = usage.ru_utime + usage.ru_stime
    return Ended(process.returncode, round(cpu_seconds, 1), round(time.monotonic() - began, 1))


@contextlib.contextmanager
def _passing_signals_to(pid: int) -> Iterator[None]:
    # Always SIGTERM: a terminal sends Ctrl-C to the command as well, and a second one would cut its last save.
    pass_on = lambda *_: os.kill(pid, signal.SIGTERM)
    before = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def hardware(devices: str) -> str:
    """The machine in words; `devices` as a run's environment.json has them, such as `1 gpu device by pmap`."""
    cpu = f'{_cores()}, {_cpu_name()}'
    if not devices or ' cpu ' in devices:
        return cpu
    names = _gpu_names()
    return f'{devices}{f" ({names})" if names else ""}, {cpu}'


def _cores() -> str:
    """How many of the machine's cores this process may use, and those that it starts."""
    there = os.cpu_count()
    ours = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else there
    return f'{there} cores' if ours == there else f'{ours} of {there} cores'


def _cpu_name() -> str:
    """Its name and widest vectors, on which the order of sums depends, and so a run's last bits."""
    with contextlib.suppress(OSError):
        text = Path('/proc/cpuinfo').read_text()
        facts = dict(re.findall(r'^(model name|flags)\s*:\s*(.*)$', text, re.MULTILINE))
        vectors = [flag for flag in ('avx512f', 'avx2') if flag in facts.get('flags', '').split()]
        if 'model name' in facts:
            return ', '.join([facts['model name'], *vectors[:1]])
    return platform.machine()


def _gpu_names() -> str:
    command = ['nvidia-smi', '--query-gpu=name', '--format=csv,noheader']
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        names = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.splitlines()
        return ', '.join(dict.fromkeys(names))
    return ''
