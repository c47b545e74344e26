"""Orbax on damaged files: whatever it raises becomes a sentence."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import TracebackType

from flax_transformer.common.errors import UserError
from flax_transformer.engine.preemption import interrupt_in

Hook = Callable[[type[BaseException], BaseException, TracebackType | None], None]


@contextlib.contextmanager
def reading(what: str) -> Iterator[None]:
    """Turns any exception but those of the system into a UserError which says that `what` cannot be read."""
    before, sys.excepthook = sys.excepthook, _without_late_reads(sys.excepthook)
    try:
        yield
    except (UserError, OSError, MemoryError):
        raise
    except Exception as error:  # Orbax may raise anything on a damaged file
        if interrupt := interrupt_in(error):  # of which Orbax makes an error of its own
            raise interrupt from None
        if 'RESOURCE_EXHAUSTED' in str(error):
            raise
        first = (str(error).splitlines() or [''])[0][:200]
        raise UserError(
            f'{what} is damaged, or cannot be read ({type(error).__name__}: {first}); restore it from a backup, or '
            'choose another'
        ) from None
    else:
        sys.excepthook = before  # not after a failure: other reads end later


def _without_late_reads(hook: Hook) -> Hook:
    """The hook, without the traceback of each read that ends when Orbax, which raised, no longer waits for it."""

    def called(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
        if str(error) != 'Event loop is closed':
            hook(kind, error, where)

    return called
