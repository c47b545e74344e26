"""Requests to stop: at SIGTERM or Ctrl-C training saves and exits; at a second Ctrl-C it exits at once."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from flax_transformer.common.errors import Interrupted
from flax_transformer.common.signals import can_raise, end_process, warn

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_MOMENT = 0.05  # seconds


def interrupt_in(error: BaseException | None) -> KeyboardInterrupt | None:
    """The interruption that a library turned into this error; None if the error has another cause."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error


class Stop:
    """Whether a signal has asked training to stop.

    A signal raises Interrupted at once, for instance while data is being prepared; within `deferred` it is only noted.
    """

    def __init__(self, *, exit_at_second: bool = False) -> None:
        self.requested: str | None = None  # the name of the signal
        self._is_deferred = False
        self._exits_at_second = exit_at_second
        self.shared: Callable[[int, str | None], str | None] | None = None  # the SharedStop of several processes

    def after(self, step: int) -> str | None:
        """The signal to stop for after a step, if any; with several processes, the same in all."""
        return self.requested if self.shared is None else self.shared(step, self.requested)

    @contextlib.contextmanager
    def deferred(self, is_deferred: bool = True) -> Iterator[None]:
        """Inside, a signal is only noted in `requested`; with `is_deferred` False, it raises."""
        before = self._is_deferred
        self._is_deferred = is_deferred
        try:
            yield
        finally:
            self._is_deferred = before

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._is_deferred and not can_raise(frame):
            threading.Timer(_MOMENT, os.kill, (os.getpid(), number)).start()  # it comes again
        elif self.requested is None:
            self.requested = signal.Signals(number).name
            if not self._is_deferred:
                # Kept alive with the frames that it leaves: XLA may still be compiling a program that one of them owns.
                self._interrupt = Interrupted(f'{self.requested}: stopped; the same command goes on')
                raise self._interrupt
            warn(f'\n{self.requested}: saving after this step; another Ctrl-C stops at once\n')
        elif number == signal.SIGINT:
            if self._exits_at_second:
                end_process(128 + number, '\nstopped at once; the same command goes on from the last checkpoint\n')
            raise KeyboardInterrupt


@contextlib.contextmanager
def stop_on_signals(*, exit_at_second: bool = False) -> Iterator[Stop]:
    """Turns SIGTERM and Ctrl-C into a Stop; restores the handlers afterward.

    Does nothing outside the main thread, where Python allows no handlers, and leaves ignored signals alone, as a
    background job of the shell has them. At a second Ctrl-C, ends the process with `exit_at_second`; else raises
    KeyboardInterrupt, as notebooks need.
    """
    stop = Stop(exit_at_second=exit_at_second)
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    with contextlib.ExitStack() as undo:
        for number in _SIGNALS:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:
                signal.signal(number, stop._handle)
                undo.callback(signal.signal, number, before or signal.SIG_DFL)
        try:
            yield stop
        except Exception as error:
            if interrupt := interrupt_in(error):
                raise interrupt from None
            raise
