"""Large memory pages for training on CPUs under Linux."""

import os
import platform
import signal
import sys
from pathlib import Path

_MODE = Path('/sys/kernel/mm/transparent_hugepage/enabled')
_TUNABLE = 'glibc.malloc.hugetlb'


def restart_with_huge_pages() -> None:
    """Restarts the process, with the same arguments and process id, so that malloc uses huge pages.

    On CPUs XLA allocates the memory of every step anew, and page faults then cost a sixth of the time. The C library
    reads its setting only when a process starts. Does nothing if the setting is there already or unknown to the C
    library, if the system decides by itself, or if it starts no process.
    """
    tunables = os.environ.get('GLIBC_TUNABLES', '')
    if _TUNABLE in tunables or not _would_help():
        return
    environment = {**os.environ, 'GLIBC_TUNABLES': ':'.join(filter(None, (tunables, f'{_TUNABLE}=1')))}
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None: closed
        stream.flush()
    # Until the new process has its handlers.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGALRM})
    try:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
    except OSError:  # this process trains as well, more slowly
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _would_help() -> bool:
    library, version = platform.libc_ver()
    if (
        not sys.executable
        or sys.platform != 'linux'
        or library != 'glibc'
        or tuple(map(int, version.split('.')[:2])) < (2, 35)
    ):
        return False
    try:
        return '[madvise]' in _MODE.read_text()
    except OSError:
        return False
