"""Checkpoints that find the disk full."""

import contextlib
import errno
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def tolerate_full_disk(say: Callable[[str], None]) -> Iterator[None]:
    """Reports a checkpoint that found no room and carries on: training tries again at its next save."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        what = error.strerror.partition(': make room')[0]
        say(f'{what}. Training goes on (training.on_full_disk) and tries again at the next save')


def human_size(count: int) -> str:
    """Bytes as a person reads them."""
    unit, name = next((each for each in ((1e9, 'GB'), (1e6, 'MB')) if count >= each[0]), (1e3, 'kB'))
    return f'{count / unit:,.1f} {name}'
