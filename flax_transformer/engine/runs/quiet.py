"""What Orbax prints and we do not want to see."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from absl import logging


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """Silences Orbax, which warns that a read-only manager is read-only, and of items without metadata of their own."""
    level = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(level)


def drop_late_callbacks() -> None:
    """From now on, no traceback for each file that is still read or written when the first has failed.

    Orbax raises the first error and closes its event loop, which the threads of the other files then find closed.
    """
    before = sys.unraisablehook
    if getattr(before, 'drops_late_callbacks', False):
        return

    def hook(unraisable: Any) -> None:
        if not isinstance(unraisable.exc_value, RuntimeError) or str(unraisable.exc_value) != 'Event loop is closed':
            before(unraisable)

    hook.drops_late_callbacks = True
    sys.unraisablehook = hook
