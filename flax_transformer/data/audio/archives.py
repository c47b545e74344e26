"""Recordings in a tar archive: by their offsets if it is plain, held in memory if it is compressed."""

import io
import posixpath
import tarfile
from collections.abc import Collection
from pathlib import Path
from typing import BinaryIO, NamedTuple

from flax_transformer.common.errors import BadInput, UserError
from flax_transformer.common.files import open_regular
from flax_transformer.data.lines import broken_file

SUFFIXES = ('.tar', '.tar.gz', '.tgz', '.tar.xz', '.tar.bz2')
MOST_UNPACKED = 1 << 30  # bytes of a compressed archive's files that are held in memory


class Source(NamedTuple):
    """Where the bytes of a recording are: a file, a part of a file, or memory."""

    path: Path
    name: str  # for messages; 'recordings.tar:a/b.wav' in an archive
    start: int = 0
    size: int | None = None  # bytes; None: all
    content: bytes | None = None  # of a compressed archive

    def open(self) -> BinaryIO:
        """The recording's bytes. Raises BadInput if the file is not there."""
        if self.content is not None:
            return io.BytesIO(self.content)
        opened = open_regular(self.path)
        if self.size is None:
            return opened
        with opened:
            opened.seek(self.start)
            return io.BytesIO(opened.read(self.size))


def archives_in(folder: Path) -> list[Path]:
    """The tar archives of a folder, sorted by name."""
    return sorted(file for file in folder.iterdir() if file.name.endswith(SUFFIXES) and file.is_file())


def members_of(archive: Path, wanted: Collection[str]) -> dict[str, Source]:
    """The files of an archive that are wanted, by name; those that it lacks are left out.

    Raises BadInput for a damaged archive, UserError for a compressed one with too much in it.
    """
    spellings: dict[str, list[str]] = {}  # of a member: a.wav, ./a.wav
    for name in wanted:
        spellings.setdefault(posixpath.normpath(name), []).append(name)
    is_plain = archive.name.endswith('.tar')
    found: dict[str, Source] = {}
    held = 0
    try:
        with tarfile.open(archive, 'r:' if is_plain else 'r|*') as opened:
            for member in opened:
                names = spellings.get(posixpath.normpath(member.name), [])
                if not names or not member.isreg() or member.issparse():
                    continue
                source = Source(archive, f'{archive}:{names[0]}', member.offset_data, member.size)
                if not is_plain:
                    held += member.size
                    _check_size(archive, held)
                    source = source._replace(content=opened.extractfile(member).read())
                found |= dict.fromkeys(names, source)
    except (tarfile.TarError, *broken_file()) as error:
        raise BadInput(f'{archive} could not be read: {error}; expected a whole tar archive') from None
    return found


def _check_size(archive: Path, held: int) -> None:
    if held > MOST_UNPACKED:
        raise UserError(
            f'{archive} is compressed, and its recordings take more than {MOST_UNPACKED / 2**30:g} GiB of memory; '
            f'unpack it where it is: tar -xf {archive} -C {archive.parent}'
        )
