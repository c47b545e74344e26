"""Going on when there is no room for a checkpoint."""

import contextlib
import errno
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def tolerate_full_disk(say: Callable[[str], None]) -> Iterator[None]:
    """Reports that a checkpoint found no room, instead of raising; training tries again at its next save."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        problem = error.strerror.partition(': make room')[0]
        say(f'{problem}. Training goes on (training.on_full_disk) and tries again at the next save')


def human_size(count: int) -> str:
    """A number of bytes as in 1.2 GB."""
    unit, name = next((each for each in ((1e9, 'GB'), (1e6, 'MB')) if count >= each[0]), (1e3, 'kB'))
    return f'{count / unit:,.1f} {name}'
