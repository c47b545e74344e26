"""Files written whole or not at all, and their checksums."""

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def written_whole(file: Path, partial: Path | None = None) -> Iterator[BinaryIO]:
    """A binary file to write to, which gets its name when the block ends; if the block raises, nothing is left.

    `partial` is its path until then. Give one that nobody else has if several processes may write the file at once.
    """
    partial = partial or file.with_name(file.name + '.partial')
    try:
        with partial.open('wb') as opened:
            yield opened
        partial.replace(file)
    except OSError as error:
        error.filename = error.filename or str(file)  # a failed write names no file
        raise
    finally:
        partial.unlink(missing_ok=True)


def write_whole(file: Path, content: str | bytes) -> None:
    """Writes the file, text as UTF-8, so that a reader sees the old content or the new, never a part."""
    with written_whole(file) as opened:
        opened.write(content.encode() if isinstance(content, str) else content)


def sha256_of(file: Path) -> str:
    """The file's SHA-256 in hexadecimal."""
    with file.open('rb') as opened:
        return hashlib.file_digest(opened, 'sha256').hexdigest()
