"""Signals and the processes that a process starts."""

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """What is started inside ignores Ctrl-C and SIGTERM, which a terminal or a scheduler sends to all processes.

    Does nothing on systems that have no such mask.
    """
    if not hasattr(signal, 'pthread_sigmask'):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def unblock_signals() -> None:
    """Lets in what was blocked when this process was started, and what came since."""
    if hasattr(signal, 'pthread_sigmask'):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGALRM})
