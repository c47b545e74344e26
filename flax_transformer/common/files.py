"""Files written whole or not at all, their checksums, locks, and reading files that a stranger may have made."""

import contextlib
import errno
import glob
import hashlib
import io
import os
import socket
import stat
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from .errors import UserError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

MOST_TEXT = 16 << 20  # bytes of a file of settings; JSON takes some 25 times as much in memory
MOST_WORDS = 1 << 26  # bytes of a vocabulary: some five million words

LOCK_FILE = 'lock'
_PIECE = 1 << 20  # bytes read at a time
_MOST_SPARSE = 1 << 29  # bytes


def user_cache() -> Path:
    root = os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache'
    return Path(root) / 'flax_transformer'


def open_regular(file: Path) -> BinaryIO:
    """The file, opened for reading. Raises UserError unless it is a regular file, or a link to one.

    Opening a FIFO would wait for ever, and reading a device may never end.
    """
    check_regular(file)
    return file.open('rb')


def check_regular(file: Path) -> None:
    status = os.stat(file)
    if not stat.S_ISREG(status.st_mode):
        raise UserError(f'{file} is a {file_type(status.st_mode)}, expected a regular file')

    size = status.st_size
    held = 512 * getattr(status, 'st_blocks', 0)  # 0: not known, as on some network file systems
    if size > _MOST_SPARSE and 0 < held < size // 1000:  # it would take hours to read nothing
        raise UserError(f'{file} has {size:,} bytes, of which {held:,} are on the disk; expected a whole file')


def file_type(mode: int) -> str:
    """Names what is no regular file: a folder, a FIFO, a socket or a device."""
    return {stat.S_IFDIR: 'folder', stat.S_IFIFO: 'FIFO', stat.S_IFSOCK: 'socket'}.get(stat.S_IFMT(mode), 'device')


def read_limited(file: Path, most: int = MOST_TEXT) -> bytes:
    """The content of a regular file of at most `most` bytes."""
    with open_regular(file) as opened:
        content = read_at_most(opened, most + 1)
    if len(content) > most:
        raise UserError(f'{file} is larger than {most:,} bytes; expected a small file')
    return content


def read_at_most(opened: BinaryIO, most: int) -> bytes:
    """The next bytes, up to `most`, in the memory of those that are there."""
    content = io.BytesIO()
    while most > 0 and (piece := opened.read(min(most, _PIECE))):
        most -= content.write(piece)
    return content.getvalue()  # not a copy


@contextlib.contextmanager
def naming(file: Path) -> Iterator[None]:
    """Gives an OSError the file's name, which that of a full disk lacks."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(file)
        raise


@contextlib.contextmanager
def naming_damage(file: Path, remedy: str = 'copy it from the run again') -> Iterator[None]:
    """Turns what reading a missing or damaged file raises into a UserError with its name."""
    try:
        yield
    except UserError:
        raise
    except FileNotFoundError as error:
        raise UserError(f'{error.filename} is missing; {remedy}') from None
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise UserError(f'{file} is damaged ({error}); {remedy}') from None


@contextlib.contextmanager
def written_whole(file: Path, partial: Path | None = None) -> Iterator[BinaryIO]:
    """A binary file to write to, which gets its name when the block ends; if the block raises, nothing is left.

    `partial` is its path until then: one by `own_partial` if several processes may write the file at once.
    """
    partial = partial or file.with_name(file.name + '.partial')
    try:
        with contextlib.suppress(FileNotFoundError):
            # Writing would follow a link that a stranger left, and wait for a FIFO.
            if not stat.S_ISREG(os.lstat(partial).st_mode):
                partial.unlink()
        with naming(file), partial.open('wb') as opened:
            yield opened
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


def own_partial(file: Path) -> Path:
    """A path for writing the file that no other process has, and NAME.* does not match."""
    return file.with_name(f'.{file.name}.{uuid.uuid4().hex[:12]}.partial')


def partials_of(file: Path) -> list[Path]:
    """The paths by `own_partial` at which processes write the file, or were killed."""
    return list(file.parent.glob(f'.{glob.escape(file.name)}.*.partial'))


def write_whole(file: Path, content: str | bytes) -> None:
    """Writes the file so that a reader sees the old content or the new, never a part."""
    with written_whole(file) as opened:
        opened.write(content.encode() if isinstance(content, str) else content)


def sha256_of(file: Path) -> str:
    with open_regular(file) as opened:
        return hashlib.file_digest(opened, 'sha256').hexdigest()


@contextlib.contextmanager
def in_use(folder: Path, *, say: Callable[[str], None]) -> Iterator[None]:
    """Locks the folder, which is made first, and removed if it is empty at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / LOCK_FILE
    opened = _open_and_lock(file, say)
    try:
        os.ftruncate(opened, 0)
        with contextlib.suppress(OSError):  # a full disk: the name is only a courtesy
            since = time.strftime('%Y-%m-%d %H:%M:%S')
            os.write(opened, f'process {os.getpid()} on {socket.gethostname()} since {since}\n'.encode())
            os.fsync(opened)  # the file stays open, and other machines see what was written when it is closed
        yield
    finally:
        if all(other.name == LOCK_FILE for other in folder.iterdir()):
            with contextlib.suppress(OSError):
                file.unlink()
                folder.rmdir()
        os.close(opened)


def holder(folder: Path) -> str:
    """The process that last locked the folder, and when; '' if there is no lock."""
    try:
        return (folder / LOCK_FILE).read_text('utf-8', 'replace')
    except OSError:
        return ''


def lock(opened: int, *, is_patient: bool = False) -> None:
    """Locks an open file until it is closed, or its process ends.

    Raises BlockingIOError if another process holds the lock (with `is_patient`, waits), OSError where there are none.
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


def allow_open_files(count: int) -> None:
    """Raises this process's limit of open files to so many, if the system lets it."""
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
