"""Two aligned text files, one sentence a line, plain or gzipped."""

import codecs
import gzip
import zlib
from pathlib import Path

from flax_transformer.data.pairs import Pairs
from flax_transformer.errors import UserError


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file, `.gz` too. A line ends at "\\n" alone; a "\\r" before it is dropped.

    Raises UserError for a missing file, a broken archive, or bytes that are not UTF-8 (with the line).
    """
    if not path.is_file():
        why = 'is a folder, not a file' if path.is_dir() else 'does not exist'
        hint = '' if path.parent.is_dir() else f' (nor does the folder {path.parent})'
        raise UserError(f'{path} {why}{hint}')
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == '.gz' else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f'{path} could not be read: {error}') from None
    return split_lines(content, str(path))


def split_lines(content: bytes, name: str) -> list[str]:
    """Lines of UTF-8 text, ended by "\\n" alone: U+2028 and its like are part of a sentence."""
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        text = content.decode('utf-8')
    except UnicodeDecodeError as error:
        line = content.count(b'\n', 0, error.start) + 1
        got = content[error.start : error.start + 1].hex()
        raise UserError(
            f'{name}, line {line}: byte 0x{got} is not valid UTF-8; convert the file, for example with '
            '`iconv -f LATIN1 -t UTF-8`'
        ) from None
    lines = text.split('\n')
    if lines[-1] == '':
        lines.pop()
    return [line.removesuffix('\r') for line in lines]


def read_text_files(source: Path, target: Path) -> Pairs:
    """The pairs of two aligned files. Raises UserError where their numbers of lines differ or there are none."""
    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        raise UserError(
            f'{source} has {len(sources)} lines, {target} has {len(targets)}; '
            'expected equal counts: line n of one file translates line n of the other'
        )
    if not sources:
        raise UserError(f'{source} and {target} are empty; expected at least one sentence pair')
    return Pairs(sources, targets)
