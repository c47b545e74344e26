"""Requests to stop: at SIGTERM or Ctrl-C training saves and exits; at a second Ctrl-C it exits at once."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from flax_transformer.common.errors import EXIT_CODE, Interrupted

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def interrupt_in(error: BaseException | None) -> KeyboardInterrupt | None:
    """The interruption that a library made this error of; None if it comes from something else."""
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def _warn(text: str) -> None:
    """Writes to standard error. Not print: the signal may have arrived during one."""
    with contextlib.suppress(OSError):  # closed, or its reader was ended by the same Ctrl-C, as in `2>&1 | tee log`
        os.write(2, text.encode())


def exit_on_signals() -> None:
    """SIGTERM and Ctrl-C end the process with EXIT_CODE, as long as training has no handlers: nothing can be lost."""

    def leave(number: int, _: object) -> None:
        _warn(f'{signal.Signals(number).name}: stopped; the same command goes on\n')
        os._exit(EXIT_CODE)

    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, leave)


class Stop:
    """Whether a signal has asked training to stop.

    A signal raises Interrupted at once, for instance while data is being prepared; within `deferred` it is only noted.
    """

    def __init__(self) -> None:
        self.requested: str | None = None  # the name of the signal
        self._is_deferred = self._is_lost = False
        self.shared: Callable[[int, str | None], str | None] | None = None  # with several processes, their SharedStop

    def after(self, step: int) -> str | None:
        """The signal to stop for after a step, if any; with several processes, the same in all."""
        return self.requested if self.shared is None else self.shared(step, self.requested)

    @contextlib.contextmanager
    def deferred(self, is_deferred: bool = True) -> Iterator[None]:
        """Inside, a signal is only noted in `requested`; with `is_deferred` False, it raises."""
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
            _warn(f'\n{self.requested}: saving after this step; another Ctrl-C stops at once\n')
        elif self._is_lost:
            self._is_lost = False
            if not self._is_deferred:
                raise Interrupted(f'{self.requested}: stopped; the same command goes on')
        elif number == signal.SIGINT:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def _raised_again(self) -> Iterator[None]:
        """Inside, an Interrupted that Python drops, for it arrived in a callback of the collector, is raised again."""
        before, timers, is_open = sys.unraisablehook, [], True

        def hook(unraisable: Any) -> None:
            if not is_open or not isinstance(unraisable.exc_value, Interrupted):  # another hook may still call this one
                before(unraisable)
                return
            self._is_lost = True
            # Later, when the callback is over. Not SIGINT: a second one ends the process.
            timers.append(threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)))
            timers[-1].start()

        sys.unraisablehook = hook
        try:
            yield
        finally:
            is_open = False
            sys.unraisablehook = before
            for timer in timers:
                timer.cancel()
                timer.join()


@contextlib.contextmanager
def stop_on_signals(*, exit_at_second: bool = False) -> Iterator[Stop]:
    """Turns SIGTERM and Ctrl-C into a Stop; restores the handlers afterwards.

    Does nothing outside the main thread, where Python allows no handlers, and leaves ignored signals alone, as in
    a background job of the shell.

    Args:
      exit_at_second: a second Ctrl-C ends the process, even while Python waits for a compilation; otherwise it raises
        KeyboardInterrupt, as notebooks need.
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
        undo.enter_context(stop._raised_again())
        try:
            yield stop
        except Exception as error:
            if interrupt := interrupt_in(error):
                raise interrupt from None
            raise


@contextlib.contextmanager
def _exit_at_second() -> Iterator[None]:
    """Ends the process at a second Ctrl-C, from a thread that Python's C signal handler notifies."""
    if not hasattr(os, 'set_blocking'):  # Windows, before Python 3.12
        yield
        return
    read, write = os.pipe()
    os.set_blocking(write, False)

    def watch() -> None:
        is_requested = False
        while number := os.read(read, 1):
            if is_requested and number[0] == signal.SIGINT:
                _warn('\nstopped at once; the same command goes on from the last checkpoint\n')
                os._exit(128 + signal.SIGINT)
            is_requested = is_requested or number[0] in _SIGNALS
        os.close(read)

    threading.Thread(target=watch, daemon=True, name='signals').start()
    before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(write)  # ends the thread
