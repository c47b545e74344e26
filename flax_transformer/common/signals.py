"""Signals: where their handlers may raise, how they end a process, and what is started without them."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """What is started inside ignores Ctrl-C and SIGTERM, which terminals and schedulers send to all processes."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def can_raise(frame: FrameType | None) -> bool:
    """True if the handler of a signal that came in this frame may raise an exception.

    Extension modules that are being imported would crash. What is raised in a destructor, or in JAX's callback of the
    garbage collector, Python prints and drops.
    """
    while frame is not None:
        code = frame.f_code
        is_import = code.co_filename.startswith('<frozen importlib')
        if is_import or code.co_name in ('__del__', '_xla_gc_callback'):
            return False
        frame = frame.f_back
    return True


def warn(text: str) -> None:
    """Writes to standard error. Not print: the signal may have arrived during one."""
    with contextlib.suppress(OSError):  # closed, or its reader was ended by the same Ctrl-C, as in `2>&1 | tee log`
        os.write(2, text.encode())


def end_process(code: int, text: str = '') -> NoReturn:
    """Ends the process at once, without Python's teardown.

    XLA's threads still compile, and would crash when what they read is freed; Orbax's wait for saves that have ended.
    """
    for stream in (sys.stdout, sys.stderr):
        # Its reader is gone, it is closed, or the signal came while it was being written to.
        with contextlib.suppress(OSError, ValueError, AttributeError, RuntimeError):
            stream.flush()
    warn(text)
    os._exit(code)
