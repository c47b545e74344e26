"""A lock that keeps a folder to one process; the system releases it however the process ends."""

import contextlib
import errno
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from flax_transformer.common.errors import UserError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

LOCK_FILE = 'lock'


@contextlib.contextmanager
def in_use(folder: Path, *, say: Callable[[str], None]) -> Iterator[None]:
    """Locks the folder, which is made if it is missing, and removed if it is still empty at the end.

    Raises UserError, naming the process, if another one holds the lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / LOCK_FILE
    opened = _open_and_lock(file, say)
    try:
        os.ftruncate(opened, 0)
        with contextlib.suppress(OSError):  # a full disk: the name is only a courtesy
            since = time.strftime('%Y-%m-%d %H:%M:%S')
            os.write(opened, f'process {os.getpid()} on {socket.gethostname()} since {since}\n'.encode())
        yield
    finally:
        if all(other.name == LOCK_FILE for other in folder.iterdir()):
            with contextlib.suppress(OSError):
                file.unlink()
                folder.rmdir()
        os.close(opened)


def holder(folder: Path) -> str:
    """Returns which process last locked the folder, and when; '' if there is no lock."""
    try:
        return (folder / LOCK_FILE).read_text('utf-8', 'replace')
    except OSError:
        return ''


def lock(opened: int, *, is_patient: bool = False) -> None:
    """Locks an open file until it is closed, or its process ends.

    Raises BlockingIOError if another process holds the lock (with `is_patient`, waits), another OSError where the
    system or the file system has no locks.
    """
    if fcntl is None:
        raise OSError(errno.ENOLCK, 'this system has no flock')
    fcntl.flock(opened, fcntl.LOCK_EX | (0 if is_patient else fcntl.LOCK_NB))


def _open_and_lock(file: Path, say: Callable[[str], None]) -> int:
    while True:
        opened = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, 'O_NOFOLLOW', 0), 0o644)
        try:
            lock(opened)
            # Its last holder may have removed the file in between, and a lock on a removed file keeps nobody out.
            if os.fstat(opened).st_ino == os.stat(file).st_ino:
                return opened
        except BlockingIOError:
            who = os.read(opened, 200).decode('utf-8', 'replace').strip() or 'another process'
            os.close(opened)
            raise UserError(
                f'{file.parent} is in use by {who}; wait until it ends, stop it, or give another --workdir'
            ) from None
        except FileNotFoundError:
            pass
        except OSError as error:
            say(f'{file} cannot be locked here ({error.strerror}): train with one process at a time')
            return opened
        os.close(opened)
