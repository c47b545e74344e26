"""Notes, tables and durations for people, who may ask for quiet; errors are always shown."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence

from tqdm import tqdm

from .errors import visible

VARIABLE = 'FLAX_TRANSFORMER_QUIET'  # worker processes inherit the environment
Say = Callable[[str], None]


def is_quiet() -> bool:
    return os.environ.get(VARIABLE, '0') not in ('', '0')


def shows_progress() -> bool:
    """True if standard error is a terminal, and progress is wanted."""
    return sys.stderr.isatty() and not is_quiet()


def say(text: str, *, is_error: bool = False) -> None:
    """Prints a note, or an error even if quiet, on standard error above any progress bar."""
    if is_error or not is_quiet():
        with contextlib.suppress(OSError):  # a log on a full disk, or its reader is gone
            tqdm.write(visible(text), file=sys.stderr)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line for each row of a table: names in the first column, numbers in the others."""
    lines = []
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    for name, *cells in rows:
        numbers = [cell.rjust(width) for cell, width in zip(cells, others, strict=True)]
        lines.append('  '.join([name.ljust(first), *numbers]))
    return lines


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = '1'
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]  # the caller's environment stays as it was
        else:
            os.environ[VARIABLE] = before


def duration(seconds: float) -> str:
    """Seconds in words, such as 1.5 h, 22 min or 7.3 s."""
    if seconds >= 5400:
        return f'{seconds / 3600:,.1f} h'
    return f'{seconds / 60:.0f} min' if seconds >= 90 else f'{seconds:.1f} s'
