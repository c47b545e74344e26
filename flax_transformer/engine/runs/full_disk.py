"""Going on when there is no room for a checkpoint."""

import contextlib
import errno
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path


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


def no_space_left(step: int, needed: int, folder: Path) -> OSError:
    """The error for a checkpoint of up to `needed` bytes that did not fit."""
    message = (
        f'no space left for the checkpoint of step {step}: it needs up to {human_size(needed)}, '
        f'{human_size(shutil.disk_usage(folder).free)} are free; those before it are whole: make room, and the same '
        'command goes on from the last one'
    )
    return OSError(errno.ENOSPC, message, str(folder))
