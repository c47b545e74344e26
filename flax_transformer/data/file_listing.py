"""Files listed with sizes, times and checksums, to notice when their text changes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flax_transformer.common.files import sha256_of

Listed = dict[str, Any]  # path, bytes, mtime_ns, sha256


def stat(file: Path) -> Listed:
    """A file's entry without its checksum."""
    found = file.stat()
    return {'path': str(file.absolute()), 'bytes': found.st_size, 'mtime_ns': found.st_mtime_ns}


def listed(files: Sequence[Path]) -> list[Listed]:
    """The entries of files."""
    return [{**stat(file), 'sha256': sha256_of(file)} for file in files]


def unchanged(known: Sequence[Listed], files: Sequence[Path]) -> list[Listed] | None:
    """The files' entries as of now if their text is unchanged; else None.

    Only files whose path, size or time differ are read again: they may have been moved, or touched.
    """
    if len(known) != len(files):
        return None
    now = []
    for old, file in zip(known, files, strict=True):
        new = {**stat(file), 'sha256': old['sha256']}
        if new != old and (new['bytes'] != old['bytes'] or sha256_of(file) != old['sha256']):
            return None
        now.append(new)
    return now
