"""Running a command to its end, with what it took."""

import contextlib
import os
import platform
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
    """Runs the command. SIGTERM and Ctrl-C are its own business, and are passed on to it."""
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
    cpu = f'{os.cpu_count()} x {_cpu_name()}'
    if not devices or ' cpu ' in devices:
        return cpu
    names = _gpu_names()
    return f'{devices}{f" ({names})" if names else ""}, {cpu}'


def _cpu_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path('/proc/cpuinfo').read_text().splitlines():
            if line.startswith('model name'):
                return line.partition(':')[2].strip()
    return platform.machine()


def _gpu_names() -> str:
    command = ['nvidia-smi', '--query-gpu=name', '--format=csv,noheader']
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        names = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.splitlines()
        return ', '.join(dict.fromkeys(names))
    return ''
