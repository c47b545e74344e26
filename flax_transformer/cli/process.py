"""Runs a command as a process of its own: what Ctrl-C does, what is not printed, and how the process ends."""

import logging
import signal
import sys
from collections.abc import Callable
from types import FrameType

from flax_transformer.common.errors import EXIT_CODE
from flax_transformer.common.memory import collect_rarely
from flax_transformer.common.signals import can_raise, end_process

INTERRUPTED = 128 + signal.SIGINT  # the code that shells give
_LATE = ('Event loop is closed', 'Encountered error while reading array index')  # how they begin


def run(main: Callable[[], int], *, is_training: bool = False) -> None:
    """Runs a command and exits with its code: 130 after Ctrl-C; 75 in training that has no own handlers yet."""
    collect_rarely()
    # They keep the frames that they left: an XLA thread that is still compiling reads a program that one of them owns.
    interrupts: list[KeyboardInterrupt] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        if is_training:
            end_process(EXIT_CODE, f'{signal.Signals(number).name}: stopped; the same command goes on\n')
        if not can_raise(frame):
            end_process(INTERRUPTED, 'flax-transformer: interrupted\n')
        interrupts.append(KeyboardInterrupt())
        raise interrupts[-1]

    for number in (signal.SIGINT, signal.SIGTERM) if is_training else (signal.SIGINT,):
        if signal.getsignal(number) is not signal.SIG_IGN:  # a shell's background job ignores Ctrl-C
            signal.signal(number, interrupt)
    drop_late_errors()
    try:
        code = main()
    except KeyboardInterrupt:  # it came while another was being reported
        code = INTERRUPTED
    except Exception:
        if not interrupts:
            raise
        print('flax-transformer: interrupted', file=sys.stderr)  # a library turned it into an error of its own
        code = INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # there is nothing left to interrupt
    if interrupts and code not in (0, EXIT_CODE):
        code = INTERRUPTED
    if code in (INTERRUPTED, EXIT_CODE):
        end_process(code)
    sys.exit(code)


def drop_late_errors() -> None:
    """Prints no traceback for the files that Orbax reads or writes when another fails: it closes their event loop."""
    print_uncaught = sys.excepthook
    print_unraisable = sys.unraisablehook

    def print_error(kind: object, error: object, where: object) -> None:
        if not str(error).startswith(_LATE):
            print_uncaught(kind, error, where)

    def print_failure(failure: 'sys.UnraisableHookArgs') -> None:
        if not str(failure.exc_value).startswith(_LATE):
            print_unraisable(failure)

    sys.excepthook = print_error
    sys.unraisablehook = print_failure
    logging.getLogger('asyncio').setLevel(logging.CRITICAL)  # errors that nobody fetched
