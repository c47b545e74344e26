"""Files of lines divided among shards, piece by piece, and numbered outputs that are whole or absent.

Who translates a piece follows from the number of shards and from the files' names and sizes: shards need not talk.
"""

import contextlib
import glob
import heapq
import os
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO, NamedTuple

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import own_partial, partials_of, written_whole

from .lines import compressing, raw_lines_of

PIECE = 8192  # lines; the last piece of a file has fewer
RECORD = 'translate.json'  # what made the outputs of a folder


class Shard(NamedTuple):
    number: int  # counts from 1
    count: int

    @classmethod
    def parse(cls, text: str) -> 'Shard':
        match = re.fullmatch('([0-9]+)/([1-9][0-9]*)', text)
        if not match or not 1 <= int(match[1]) <= int(match[2]):
            raise UserError(f'--shard {text!r}: expected a number, from 1, and how many there are, such as 3/64')
        return cls(int(match[1]), int(match[2]))


class InputFile(NamedTuple):
    path: Path
    name: str  # its path below the folder that all input files share
    size: int  # bytes
    modified: int  # seconds since 1970


def find_input(pattern: str) -> list[InputFile]:
    names = [pattern] if Path(pattern).exists() else glob.glob(pattern, recursive=True)
    paths = [path for path in map(Path, names) if path.is_file()]
    if not paths:
        hint = f"{pattern} is a folder; expected its files, such as '{pattern}/*'"
        raise UserError(hint if Path(pattern).is_dir() else f'--input {pattern}: no file matches')
    return input_files(paths)


def input_files(paths: Sequence[Path]) -> list[InputFile]:
    """Files that are translated together, sorted by their names."""
    folder = os.path.commonpath([path.absolute().parent for path in paths])
    files = []
    for path in paths:
        status = path.stat()
        name = path.absolute().relative_to(folder).as_posix()
        files.append(InputFile(path, name, status.st_size, int(status.st_mtime)))
    return sorted(files, key=attrgetter('name'))


def shares(sizes: Sequence[int], count: int) -> list[dict[int, int]]:
    """For each file the numbers of the shards that translate it, each with its part of the file.

    The files stand end to end, and each shard has an equal stretch of their bytes.

    >>> shares([40, 20, 60], 3)
    [{1: 120}, {2: 60}, {2: 60, 3: 120}]
    """
    sizes = [max(size, 1) for size in sizes]  # an empty file has a shard too
    total = sum(sizes)
    begin = 0
    parts = []
    for size in sizes:
        end = begin + size * count  # the unit is 1 / count bytes: every shard begins at an integer
        theirs = range(begin // total, -(-end // total))
        parts.append({i + 1: min(end, (i + 1) * total) - max(begin, i * total) for i in theirs})
        begin = end
    return parts


def dealt(share: dict[int, int]) -> Iterator[int]:
    """The shard of each piece of a file, endlessly: in turn, each as often as its part asks (Webster's method).

    >>> list(islice(dealt({1: 10, 2: 30}), 8))
    [2, 1, 2, 2, 2, 1, 2, 2]
    """
    turns = [(Fraction(1, 2 * part), number) for number, part in share.items()]
    heapq.heapify(turns)
    while True:
        turn, number = turns[0]
        yield number
        heapq.heapreplace(turns, (turn + Fraction(1, share[number]), number))


def pieces(path: Path) -> Iterator[list[bytes]]:
    """The lines of a file, PIECE at a time, with their line ends; an empty file is one empty piece."""
    lines = chain.from_iterable(raw_lines_of(path))
    yield list(islice(lines, PIECE))
    while piece := list(islice(lines, PIECE)):
        yield piece


@contextlib.contextmanager
def written_piece(file: Path, suffix: str) -> Iterator[BinaryIO]:
    """A file to write a piece to, compressed as the suffix says, which gets its name when it is whole and on disk."""
    try:
        with written_whole(file, own_partial(file)) as opened:
            with compressing(opened, suffix) as compressed:
                yield compressed
            opened.flush()
            os.fsync(opened.fileno())
    except FileNotFoundError:
        if not file.exists():  # else another process was faster, and has tidied up
            raise
    for left in partials_of(file):
        left.unlink(missing_ok=True)
