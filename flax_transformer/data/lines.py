"""Text files, plain or compressed: read a line at a time, and listed with checksums to notice when their text changes.

A line ends at "\\n", and a "\\r" before it is dropped.
"""

import bz2
import codecs
import contextlib
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from flax_transformer.common.errors import BadInput, UserError
from flax_transformer.common.files import file_type, open_regular, sha256_of

CHUNK = 4096  # lines read at a time; fewer if they are long
CHUNK_BYTES = 1 << 26  # a chunk ends after so many
MOST_LINE = 1 << 28  # bytes; text8 is one line of 100 MB
COMPRESSED = {'.gz': gzip.open, '.xz': partial(lzma.open, format=lzma.FORMAT_XZ), '.bz2': bz2.open}
SUFFIXES = (*COMPRESSED, '.zst')
Listed = dict[str, Any]  # path, bytes, mtime_ns, sha256
_SEGMENTS = 'write its segments to a text file for each language, a segment on each line'
# How files that are not plain text begin, and what to do about them.
_KINDS = tuple(
    (re.compile(beginning, re.IGNORECASE), kind, remedy)
    for beginning, kind, remedy in (
        (rb'PK\x03\x04', 'a zip archive', 'unpack it and name the text files in it; those of OPUS have one a language'),
        (rb'\x1f\x8b|BZh\d1AY|\xfd7zXZ|\x28\xb5\x2f\xfd', 'compressed', 'end its name in .gz, .bz2, .xz or .zst'),
        (rb'\xff\xfe|\xfe\xff', 'in UTF-16', 'convert it with `iconv -f UTF-16 -t UTF-8`'),
        (rb'\x80[\x02-\x05]|\x93NUMPY', 'a pickle or array', "write it as text; gensim's by save_word2vec_format"),
        (
            rb'\s*<(\?xml|!doctype|tmx|xliff|srcset|refset|tstset|mteval|doc\s[^>]*docid)\b',
            "XML or SGML, as TMX, XLIFF and WMT's .sgm are",
            rf"{_SEGMENTS}, for example with `sed -n 's/.*<seg[^>]*>\(.*\)<\/seg>.*/\1/p'`",
        ),
        (rb'(#.*\n|\s+)*msgid\s+"', 'a message catalog (.po)', _SEGMENTS),
        (rb'WEBVTT|\s*\d+\r?\n\d\d:\d\d:\d\d[,.]\d\d\d -->', 'subtitles (.srt, .vtt)', _SEGMENTS),
    )
)


def content_suffix(path: Path) -> str:
    """The suffix that names the content, not the compression: `.tsv` for `a.tsv.gz`."""
    return path.with_suffix('').suffix if path.suffix in SUFFIXES else path.suffix


def no_such_file(path: Path) -> str:
    if path.exists():
        return f'{path} is a {file_type(path.stat().st_mode)}, not a file'
    return f'{path} does not exist' + ('' if path.parent.is_dir() else f' (nor does the folder {path.parent})')


def utf8_fault(error: UnicodeDecodeError) -> str:
    byte = error.object[error.start]
    return f'byte 0x{byte:02x} is not valid UTF-8; convert the file, for example with `iconv -f LATIN1 -t UTF-8`'


def read_lines(path: Path | str) -> list[str]:
    """The lines of a UTF-8 file, in memory."""
    return list(each_line(Path(path)))


def each_line(path: Path, *, is_csv: bool = False) -> Iterator[str]:
    for number, line in enumerate(chain.from_iterable(lines_of(path, is_csv=is_csv)), start=1):
        try:
            text = line.decode('utf-8')
        except UnicodeDecodeError as error:
            raise UserError(f'{path}, line {number}: {utf8_fault(error)}') from None
        yield text


def lines_of(path: Path, *, is_csv: bool = False) -> Iterator[list[bytes]]:
    """The lines of a file, which may be named .csv if it `is_csv`, as bytes, CHUNK at a time, without line ends."""
    is_begin = True
    for chunk in raw_lines_of(path):
        if is_begin:
            _check_plain(path, chunk)
            if content_suffix(path) == '.csv' and not is_csv:
                raise BadInput(
                    f'{path} has columns separated by commas; write it with tabs, as .tsv, or name plain text .txt'
                )
            chunk[0] = chunk[0].removeprefix(codecs.BOM_UTF8)
            is_begin = False
        if chunk == [b'']:
            return
        yield [line.removesuffix(b'\n').removesuffix(b'\r') for line in chunk]


def _check_plain(path: Path, lines: Sequence[bytes]) -> None:
    """Raises BadInput for a file that begins as those of another kind do."""
    begin = b''.join(line[:400] for line in lines[:20]).removeprefix(b'\xef\xbb\xbf')
    for beginning, kind, remedy in _KINDS:
        if beginning.match(begin):
            raise BadInput(f'{path} is {kind}; expected plain text in UTF-8: {remedy}')


def raw_lines_of(path: Path) -> Iterator[list[bytes]]:
    """The lines of a file as they are, some CHUNK at a time. Raises BadInput, with the line, for a broken archive."""
    number = 0  # lines read
    with open_binary(path) as file:
        lines = bounded_lines(file, MOST_LINE)
        while True:
            chunk: list[bytes] = []
            size = 0
            try:
                for line in islice(lines, CHUNK):
                    chunk.append(line)
                    size += len(line)
                    if size > CHUNK_BYTES:
                        break
            except (*broken_file(), BadInput) as error:
                number += len(chunk)
                place = f' (after line {number})' if number else ''
                raise BadInput(f'{path} could not be read: {error}{place}') from None
            if not chunk:
                return
            number += len(chunk)
            yield chunk


def bounded_lines(file: BinaryIO, most: int) -> Iterator[bytes]:
    """The lines of an open file. Raises BadInput for one of `most` bytes, instead of taking all memory for it."""
    for line in iter(partial(file.readline, most), b''):
        if len(line) == most:
            raise BadInput(f'a line has {most:,} bytes or more; expected text, broken into lines')
        yield line


def broken_file() -> tuple[type[Exception], ...]:
    """What reading a broken archive, or a broken disk, raises."""
    import zstandard

    # TypeError: reading a /proc file that would block gives None.
    return OSError, EOFError, TypeError, zlib.error, lzma.LZMAError, zstandard.ZstdError


@contextlib.contextmanager
def open_binary(path: Path, suffix: str | None = None) -> Iterator[BinaryIO]:
    """The file's bytes, decompressed by its suffix."""
    if suffix is None:
        suffix = path.suffix
    if not path.is_file():
        raise BadInput(no_such_file(path))
    try:
        packed = open_regular(path)
    except OSError as error:
        raise BadInput(f'{path} could not be read: {error}') from None
    with packed:
        if suffix == '.zst':
            yield io.BufferedReader(_Zstandard(packed))
        elif suffix in COMPRESSED:
            with COMPRESSED[suffix](packed, 'rb') as opened:
                yield opened
        else:
            yield packed


def compressing(file: BinaryIO, suffix: str) -> contextlib.AbstractContextManager[Any]:
    """A file to write to, which compresses into `file` as the suffix says; the same bytes give the same bytes."""
    if suffix == '.zst':
        import zstandard

        return zstandard.ZstdCompressor().stream_writer(file, closefd=False)
    if suffix == '.gz':
        return gzip.GzipFile('', 'wb', fileobj=file, mtime=0)
    return COMPRESSED[suffix](file, 'wb') if suffix in COMPRESSED else contextlib.nullcontext(file)


class _Zstandard(io.RawIOBase):
    """The bytes of a .zst file. zstandard's own reader stops after one frame and accepts a truncated file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._frame: Any = None  # being decompressed
        self._packed = b''
        self._unpacked = b''

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        import zstandard

        while not self._unpacked:
            self._packed = self._packed or self._file.read(1 << 12)  # it may unpack to 128 MB
            if not self._packed:
                if self._frame is not None:
                    raise EOFError('it ends in the middle of a frame')
                return 0
            self._frame = self._frame or zstandard.ZstdDecompressor().decompressobj()
            self._unpacked = memoryview(self._frame.decompress(self._packed))
            self._packed = self._frame.unused_data
            if self._frame.eof:
                self._frame = None
        count = min(len(buffer), len(self._unpacked))
        buffer[:count] = self._unpacked[:count]
        self._unpacked = self._unpacked[count:]
        return count


def stat(file: Path) -> Listed:
    """A file's entry without its checksum."""
    status = file.stat()
    return {'path': str(file.absolute()), 'bytes': status.st_size, 'mtime_ns': status.st_mtime_ns}


def listed(files: Sequence[Path]) -> list[Listed]:
    return [{**stat(file), 'sha256': sha256_of(file)} for file in files]


def unchanged(known: Sequence[Listed], files: Sequence[Path]) -> list[Listed] | None:
    """The files' entries as of now if their text is unchanged, by content where path or time differ; else None."""
    if len(known) != len(files):
        return None
    now = []
    for old, file in zip(known, files, strict=True):
        new = {**stat(file), 'sha256': old['sha256']}
        if new != old and (new['bytes'] != old['bytes'] or sha256_of(file) != old['sha256']):
            return None
        now.append(new)
    return now
