"""What Orbax prints and we do not want to see."""

import asyncio
import contextlib
import sys
import traceback
from collections.abc import Callable, Iterator
from logging import LogRecord
from pathlib import Path
from types import TracebackType
from typing import Any

from absl import logging

_LATE = 'Event loop is closed'
_MARK = 'drops_late_errors'


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """Silences Orbax, which warns that a read-only manager is read-only, and of items without metadata of their own."""
    level = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(level)


def drop_late_errors() -> None:
    """From now on, no traceback for each file that is still read or written when the first has failed.

    Orbax raises the first error and closes its event loop, which the threads of the other files then find closed.
    """
    for name, wrap in (('unraisablehook', _without_orbax), ('excepthook', _without_late_reads)):
        before = getattr(sys, name)
        if not hasattr(before, _MARK):  # others set and restore hooks, too
            hook = wrap(before)
            setattr(hook, _MARK, True)
            setattr(sys, name, hook)
    asyncio.log.logger.addFilter(_is_not_of_orbax)


def _without_orbax(before: Callable[..., None]) -> Callable[..., None]:
    def hook(unraisable: Any) -> None:
        code = getattr(unraisable.object, 'cr_code', None)  # of a coroutine that nobody awaits any more
        is_of_orbax = code is not None and 'orbax' in Path(code.co_filename).parts
        if not is_of_orbax and str(unraisable.exc_value) != _LATE:
            before(unraisable)

    return hook


def _without_late_reads(before: Callable[..., None]) -> Callable[..., None]:
    def hook(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
        if str(error) != _LATE:
            before(kind, error, where)

    return hook


def _is_not_of_orbax(record: LogRecord) -> bool:
    """False for what asyncio logs of a read of Orbax whose error nobody fetched, since another had failed before."""
    _, error, where = record.exc_info or (None, None, None)
    files = [Path(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(where)]
    return 'tensorstore_spec' not in str(error) and not any('orbax' in file.parts for file in files)
