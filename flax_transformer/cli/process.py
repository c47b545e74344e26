"""A command as a process of its own: what Ctrl-C does, wherever it comes, and how the process ends."""

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

INTERRUPTED = 128 + signal.SIGINT  # as shells count
_SAVED = 75  # training was asked to stop and has saved
_RETRY = 0.05  # seconds
_GRACE = 3.0  # seconds
_HAS_TIMER = hasattr(signal, 'setitimer')  # not on Windows
_KEPT: list[BaseException] = []

Error = TypeVar('Error', bound=BaseException)


class _CtrlC:
    """Python's own handler of SIGINT, which raises KeyboardInterrupt, with a memory; and not amid an import.

    Extension modules may crash, or print tracebacks, when an exception comes while they are initialized: it waits for
    the end of the import, and a second Ctrl-C for nothing.
    """

    def __init__(self) -> None:
        self.has_come = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        is_second, self.has_come = self.has_come and number == signal.SIGINT, True
        if not (_HAS_TIMER and _is_importing(frame)):
            raise keep(KeyboardInterrupt())
        if is_second:
            os._exit(INTERRUPTED)
        _come_again()

    def listen(self) -> None:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not in a background job, which ignores it
            signal.signal(signal.SIGINT, self)
        if _HAS_TIMER:
            signal.signal(signal.SIGALRM, self)
        sys.unraisablehook = self._dropped

    def end(self) -> None:
        """There is nothing left to interrupt."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if _HAS_TIMER:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_IGN)

    def _dropped(self, failed: 'sys.UnraisableHookArgs') -> None:
        """Where Python drops an exception, as in a destructor, raises a dropped KeyboardInterrupt a moment later."""
        if failed.exc_type is None or not issubclass(failed.exc_type, KeyboardInterrupt):
            sys.__unraisablehook__(failed)
        elif _HAS_TIMER:
            _come_again()


def keep(error: Error) -> Error:
    """Keeps an interrupt, and so the variables of the frames that it left, until the process ends.

    XLA compiles in a thread of its own, which an interrupt does not stop. It reads a program that belongs to a frame of
    the main thread, and crashes if that is freed.
    """
    _KEPT.append(error)
    return error


def _come_again() -> None:
    signal.setitimer(signal.ITIMER_REAL, _RETRY)  # not a thread: its lock may be held by what was interrupted


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith('<frozen importlib'):
            return True
        frame = frame.f_back
    return False


class _End:
    """What the interpreter does last: a command that failed or was interrupted skips the teardown of what is left.

    An exception that the C++ of jaxlib still holds would crash there, for its traceback's frames refer to extension
    modules that are gone by then; so would what is still being compiled. Threads were joined and the other functions of
    `atexit` run before.
    """

    def __init__(self) -> None:
        self.code = INTERRUPTED  # until `run` knows better
        atexit.register(self)  # registered first, called last

    def within(self, seconds: float) -> None:
        """Ends the process after that, if it still waits for threads: Orbax's wait for saves that were interrupted."""
        timer = threading.Timer(seconds, self)
        timer.daemon = True
        timer.start()

    def __call__(self) -> None:
        if not self.code and not _KEPT:
            return
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):  # its reader is gone, or it is closed
                stream.flush()
        os._exit(self.code)


def run(main: Callable[[], int]) -> None:
    """Runs a command and exits with its code; with 130, and without a traceback, wherever Ctrl-C interrupts it."""
    end, ctrl_c = _End(), _CtrlC()
    try:
        ctrl_c.listen()
        code = main()
    except SystemExit as left:
        end.code = left.code if isinstance(left.code, int) else int(left.code is not None)
        raise
    except KeyboardInterrupt:  # one more, while the first was being reported
        code = INTERRUPTED
    except Exception:
        if not ctrl_c.has_come:
            end.code = 1
            raise
        print('flax-transformer: interrupted', file=sys.stderr)  # what a library made of it
        code = INTERRUPTED
    finally:
        ctrl_c.end()
        if ctrl_c.has_come:
            end.within(_GRACE)
    end.code = INTERRUPTED if ctrl_c.has_come and code not in (0, _SAVED) else code
    sys.exit(end.code)
