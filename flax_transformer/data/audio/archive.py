"""Where a recording's bytes are: in a file, in a part of one, or in a tar archive."""

import io
import posixpath
import tarfile
from collections.abc import Collection
from pathlib import Path
from typing import BinaryIO, NamedTuple

from flax_transformer.common.errors import BadInput, UserError
from flax_transformer.common.files import open_regular, read_at_most
from flax_transformer.data.lines import broken_file, open_binary

SUFFIXES = ('.tar', '.tar.gz', '.tgz', '.tar.xz', '.tar.bz2')
MOST_UNPACKED = 1 << 30  # bytes of a compressed archive's files that are held in memory
_MOST_HEADER = 1 << 20  # bytes of a member's header, which tarfile reads whole


class Source(NamedTuple):
    """A recording's bytes: a file, a part of a file, or memory."""

    path: Path
    name: str  # messages show it; 'recordings.tar:a/b.wav' in an archive
    start: int = 0
    size: int | None = None  # bytes; None: all
    content: bytes | None = None  # unpacked from a compressed archive

    def open(self) -> BinaryIO:
        """The recording's bytes. Raises OSError or UserError if they cannot be opened."""
        if self.content is not None:
            return io.BytesIO(self.content)
        opened = open_regular(self.path)
        if self.size is None:
            return opened
        with opened:
            opened.seek(self.start)
            return io.BytesIO(read_at_most(opened, self.size))


class _Headers:
    """The archive for tarfile, which reads only headers, each whole: refuses those that declare a huge size."""

    def __init__(self, file: BinaryIO) -> None:
        self.seek = file.seek
        self.tell = file.tell
        self._read = file.read

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _MOST_HEADER:
            raise tarfile.ReadError(f'a header of {size:,} bytes; expected at most {_MOST_HEADER:,}')
        return self._read(size)


def members_of(archive: Path, wanted: Collection[str]) -> dict[str, Source | str]:
    """Maps each wanted name that the archive has to its Source, or to why it cannot be read.

    Raises BadInput for a damaged archive, UserError for a compressed one with too much in it.
    """
    spellings: dict[str, list[str]] = {}  # a member may be called a.wav and ./a.wav
    for name in wanted:
        spellings.setdefault(posixpath.normpath(name), []).append(name)
    is_plain = archive.name.endswith('.tar')
    found: dict[str, Source | str] = {}
    held = 0
    unpack = f'unpack it where it is: tar -xf {archive} -C {archive.parent}'
    try:
        with (
            open_binary(archive, '.gz' if archive.suffix == '.tgz' else archive.suffix) as file,
            tarfile.open(archive, 'r:', fileobj=_Headers(file)) as opened,
        ):
            while (member := opened.next()) is not None:
                opened.members.clear()  # tarfile would keep every member
                if member.size < 0:
                    raise tarfile.ReadError(f'a member of {member.size:,} bytes')
                names = spellings.get(posixpath.normpath(member.name), [])
                if not names:
                    continue
                if not member.isreg() or member.issparse():
                    kind = 'sparse' if member.issparse() else 'no regular file'
                    found |= dict.fromkeys(names, f'{kind} in {archive.name}; {unpack}')
                    continue
                source = Source(archive, f'{archive}:{names[0]}', member.offset_data, member.size)
                if not is_plain:
                    held += member.size
                    if held > MOST_UNPACKED:
                        most = f'{MOST_UNPACKED / 2**30:g} GiB'
                        raise UserError(
                            f'{archive} is compressed, and its recordings take more than {most} of memory; {unpack}'
                        )
                    source = source._replace(content=read_at_most(file, member.size))
                found |= dict.fromkeys(names, source)
    except UserError:
        raise
    except (tarfile.TarError, ValueError, OverflowError, RecursionError, *broken_file()) as error:
        raise BadInput(f'{archive} could not be read: {error}; expected a whole tar archive') from None
    return found
