"""Going on when there is no room for a checkpoint."""

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

_QUOTA = os.strerror(errno.EDQUOT)


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


def is_full_disk(error: Exception) -> bool:
    """Whether Orbax failed for lack of room: it wraps the system's errors, and TensorStore's are texts."""
    return any(text in str(error) for text in ('RESOURCE_EXHAUSTED', 'No space left', _QUOTA))


class Room(NamedTuple):
    """What a checkpoint takes on disk."""

    size: int  # bytes, in whole blocks
    files: int  # and folders

    def __str__(self) -> str:
        return f'{human_size(self.size)} in {self.files} files and folders'


def room_for_checkpoint(least: int, checkpoints: Path) -> Room:
    """The room that a checkpoint of at least so many bytes takes, as far as those that are there show."""
    rooms = [_room_of(folder) for folder in checkpoints.iterdir()]
    return Room(max([least, *(room.size for room in rooms)]), max((room.files for room in rooms), default=0))


def _room_of(folder: Path) -> Room:
    size = files = 0
    with contextlib.suppress(FileNotFoundError):  # Orbax may remove files meanwhile
        for path in (folder, *folder.rglob('*')):
            size, files = size + path.lstat().st_blocks * 512, files + 1
    return Room(size, files)


def no_space_left(step: int, needed: Room, folder: Path, cause: Exception) -> OSError:
    """The error for a checkpoint that did not fit, and of which nothing is left on the disk."""
    disk = os.statvfs(folder) if hasattr(os, 'statvfs') else None  # None: Windows
    if _QUOTA in str(cause):
        problem = f'{needed}, and the disk quota is exceeded'
    elif disk is None:
        problem = f'{needed}, and {human_size(shutil.disk_usage(folder).free)} are free'
    elif disk.f_files and disk.f_favail < needed.files:
        problem = f'{needed.files} files and folders, and the file system has room for {disk.f_favail} (inodes)'
    else:
        free = human_size(disk.f_bavail * disk.f_frsize)
        problem = f'{needed} of whole blocks ({disk.f_frsize:,} bytes), and {free} are free'
    message = (
        f'no space left for the checkpoint of step {step}: it needs up to {problem}; those before it are whole: make '
        'room, and the same command goes on from the last one'
    )
    return OSError(errno.ENOSPC, message, str(folder))
