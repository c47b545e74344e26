"""Requests to stop, SIGTERM and Ctrl-C: training saves and leaves; a second Ctrl-C leaves at once."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator

EXIT_CODE = 75  # EX_TEMPFAIL of sysexits.h, a temporary failure: schedulers start the job again
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Interrupted(KeyboardInterrupt):
    """Training was asked to stop, and all that it had done is kept: the same command goes on."""


class Stop:
    """Whether a signal has asked training to stop.

    A signal raises Interrupted where it arrives, as while the data is prepared; within `deferred` it is only noted.
    """

    def __init__(self) -> None:
        self.requested: str | None = None  # the name of the signal
        self._is_deferred = False
        self.shared: Callable[[int, str | None], str | None] | None = None  # of several processes: their SharedStop

    def after(self, step: int) -> str | None:
        """The signal to stop for after a step, if any; of several processes, the one for which all stop after it."""
        return self.requested if self.shared is None else self.shared(step, self.requested)

    @contextlib.contextmanager
    def deferred(self, is_deferred: bool = True) -> Iterator[None]:
        """Within, a signal is noted in `requested` (or raises again, where `is_deferred` is False)."""
        before, self._is_deferred = self._is_deferred, is_deferred
        try:
            yield
        finally:
            self._is_deferred = before

    def _handle(self, number: int, _: object) -> None:
        if self.requested is None:
            self.requested = signal.Signals(number).name
            if not self._is_deferred:
                raise Interrupted(f'{self.requested}: stopped; the same command goes on')
            # Not print: the signal may have come in the middle of one.
            os.write(2, f'\n{self.requested}: saving after this step; Ctrl-C now leaves at once\n'.encode())
        elif number == signal.SIGINT:
            raise KeyboardInterrupt


@contextlib.contextmanager
def stop_on_signals(*, exit_at_second: bool = False) -> Iterator[Stop]:
    """Turns SIGTERM and Ctrl-C into a Stop; afterwards the handlers are those of before.

    Python's handlers live in the main thread: in another one, nothing is installed. Nor is a signal touched that is
    ignored, as in a job that the shell put into the background.

    Args:
      exit_at_second: a second Ctrl-C ends the process, even where Python itself waits for a compilation; otherwise it
        raises KeyboardInterrupt, as a notebook wants it.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    with contextlib.ExitStack() as undo:
        for number in _SIGNALS:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:
                signal.signal(number, stop._handle)
                undo.callback(signal.signal, number, before or signal.SIG_DFL)
        if exit_at_second:
            undo.enter_context(_exit_at_second())
        yield stop


@contextlib.contextmanager
def _exit_at_second() -> Iterator[None]:
    """A thread that learns of signals from Python's C handler, and ends the process at a Ctrl-C after another one."""
    read, write = os.pipe()
    os.set_blocking(write, False)

    def watch() -> None:
        asked = False
        while number := os.read(read, 1):
            if asked and number[0] == signal.SIGINT:
                os.write(2, b'\nleft at once; the same command goes on from the last checkpoint\n')
                os._exit(128 + signal.SIGINT)
            asked = asked or number[0] in _SIGNALS
        os.close(read)

    threading.Thread(target=watch, daemon=True, name='signals').start()
    before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(write)  # ends the thread
