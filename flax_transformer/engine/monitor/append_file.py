"""A file appended to in whole pieces; while the disk is full, they wait in memory."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT)


class AppendFile:
    """Appends to a file without buffering. A full disk raises nothing: training must survive it."""

    def __init__(self, file: Path, say: Callable[[str], None]) -> None:
        self.file, self._say = file, say
        self._pending = b''  # not on disk yet
        self._opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)

    def add(self, piece: bytes) -> None:
        """Appends the piece, after any that are still pending."""
        was_full = bool(self._pending)
        self._pending += piece
        self._write()
        if self._pending and not was_full:
            self._say(f'no space left for {self.file}: its contents are kept in memory until there is room')

    def _write(self) -> None:
        end = os.fstat(self._opened).st_size
        written = 0
        try:
            while written < len(self._pending):
                written += os.write(self._opened, self._pending[written:])
        except OSError as error:
            os.ftruncate(self._opened, end)  # half a piece would read as damage
            if error.errno not in FULL:
                raise
        else:
            self._pending = b''

    def close(self) -> None:
        """Tries once more, and reports what is lost."""
        self._write()
        if self._pending:
            self._say(f'no space left for {self.file}: its last {len(self._pending):,} bytes are lost')
        os.close(self._opened)
