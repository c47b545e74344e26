"""A command as a process of its own: what Ctrl-C does, wherever it comes, and how the process ends."""

import _thread
import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable

INTERRUPTED = 128 + signal.SIGINT  # as shells count
_SAVED = 75  # training was asked to stop and has saved
_RETRY = 0.05  # seconds


class _CtrlC:
    """Python's own handler of SIGINT, which raises KeyboardInterrupt, with a memory."""

    def __init__(self) -> None:
        self.has_come = False

    def __call__(self, number: int, frame: object) -> None:
        self.has_come = True
        raise KeyboardInterrupt


class _End:
    """What the interpreter does last: a command that failed skips the teardown of modules and libraries.

    An exception that the C++ of jaxlib still holds would crash there: its traceback's frames refer to extension modules
    that are gone by then. Threads were joined and the other functions of `atexit` run before.
    """

    def __init__(self) -> None:
        self.code = 1  # of an exception that nothing catches
        atexit.register(self)  # registered first, called last

    def __call__(self) -> None:
        if not self.code:
            return
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):  # its reader is gone, or it is closed
                stream.flush()
        os._exit(self.code)


def run(main: Callable[[], int]) -> None:
    """Runs a command and exits with its code; with 130, and without a traceback, wherever Ctrl-C interrupts it."""
    end, ctrl_c = _End(), _CtrlC()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not in a background job, which ignores it
        signal.signal(signal.SIGINT, ctrl_c)
    sys.unraisablehook = _interrupt_again
    try:
        code = main()
    except SystemExit as left:
        end.code = left.code if isinstance(left.code, int) else int(left.code is not None)
        raise
    except KeyboardInterrupt:  # one more, while the first was being reported
        code = INTERRUPTED
    except Exception:
        if not ctrl_c.has_come:
            raise
        print('flax-transformer: interrupted', file=sys.stderr)  # what a library made of it
        code = INTERRUPTED
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # there is nothing left to interrupt
    end.code = INTERRUPTED if ctrl_c.has_come and code not in (0, _SAVED) else code
    sys.exit(end.code)


def _interrupt_again(failed: 'sys.UnraisableHookArgs') -> None:
    """Where Python drops an exception, as in a destructor, raises a dropped KeyboardInterrupt anew a moment later."""
    if failed.exc_type is None or not issubclass(failed.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(failed)
        return
    with contextlib.suppress(RuntimeError):  # the interpreter ends, and starts no threads
        threading.Timer(_RETRY, _interrupt_main_thread).start()


def _interrupt_main_thread() -> None:
    if hasattr(signal, 'pthread_kill'):  # also ends a system call
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    else:
        _thread.interrupt_main()
