"""Lines into and out of the commands: whole and in order, whatever their bytes and whatever interrupts."""

import codecs
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from flax_transformer.common.chunks import CHUNK
from flax_transformer.common.errors import BadInput, UserError

CHUNK_BYTES = 1 << 24  # a chunk ends after so many, however few its lines are
KEPT = '. The lines written so far are kept'  # ends the message about a bad line


def chunks(
    stream: Iterable[bytes],
    *,
    invalid: str = 'refuse',
    size: int = CHUNK,
    skip: int = 0,
    first: int = 1,
    place: str = 'input line',
) -> Iterator[list[str | bytes]]:
    """Yields lists of up to `size` lines of UTF-8, ended by "\\n" alone, without the first `skip`; fewer if long.

    A line that is not UTF-8 is yielded as bytes; with `refuse` it raises BadInput after the lines before it, with
    `place` and its number, counted from `first`.
    """
    chunk: list[str | bytes] = []
    num_bytes = 0
    for number, raw in enumerate(stream, start=first):
        if number <= skip:
            continue
        line = raw.removeprefix(codecs.BOM_UTF8 if number == 1 else b'').removesuffix(b'\n').removesuffix(b'\r')
        try:
            chunk.append(line.decode('utf-8'))
        except UnicodeDecodeError as error:
            if invalid == 'refuse':
                yield chunk
                got = error.object[error.start]
                raise BadInput(
                    f'{place} {number}: byte 0x{got:02x} is not valid UTF-8; expected UTF-8, for example '
                    f'from `iconv -f LATIN1 -t UTF-8`; or give --invalid replace{KEPT}'
                ) from None
            chunk.append(line)
        num_bytes += len(raw)
        if len(chunk) == size or num_bytes >= CHUNK_BYTES:
            yield chunk
            chunk = []
            num_bytes = 0
    if chunk:
        yield chunk


class LineWriter:
    """Writes whole lines to a file or to standard output; with `resume`, after those already in the file.

    Raises UserError if the file is not empty and `resume` is not set. None is for commands that cannot resume.
    """

    def __init__(self, path: Path | None, *, resume: bool | None = None) -> None:
        self.num_before = 0  # lines already in the file
        self._file: BinaryIO = sys.stdout.buffer
        if path is None:
            if getattr(sys.stdout, 'name', None) == os.devnull:  # `main` has found it closed
                raise UserError('standard output is closed; give --output, a file for the result')
            if resume:
                raise UserError('--resume continues a file: give it as --output')
            return
        if path.is_dir():
            raise UserError(f'{path} is a folder; give --output a file')
        if not resume and path.exists() and path.stat().st_size:
            to_resume = '' if resume is None else '--resume to continue after its last line, or '
            raise UserError(f'{path} is not empty; give {to_resume}another --output')
        self._file = path.open('a+b')
        if resume:
            self.num_before, end = _whole_lines(self._file)
            self._file.truncate(end)

    def __enter__(self) -> 'LineWriter':
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not sys.stdout.buffer:
            self._file.close()

    def write(self, lines: list[str]) -> None:
        """Writes whole lines, so that a reader has them before the next are made."""
        # A file's name may have bytes that are not UTF-8.
        self._file.write(''.join(line + '\n' for line in lines).encode('utf-8', 'backslashreplace'))
        self._file.flush()


def _whole_lines(file: BinaryIO) -> tuple[int, int]:
    """The number of lines that end in a line feed, and where the last of them ends."""
    count = end = 0
    file.seek(0)
    for line in file:
        if line.endswith(b'\n'):
            count += 1
            end += len(line)
    return count, end


def to_json(record: dict[str, Any]) -> str:
    """The record as JSON on one line, whatever a reader takes for a line end."""
    return without_line_breaks(json.dumps(record, ensure_ascii=False))


def without_line_breaks(text: str) -> str:
    """The same JSON without characters that some reader takes for a line end."""
    text = text.replace('\r', ' ')  # stands between values: within a string JSON has it escaped
    for character in '' if text.isascii() else '\x85\u2028\u2029':
        text = text.replace(character, f'\\u{ord(character):04x}')
    return text
