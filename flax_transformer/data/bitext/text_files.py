"""Parallel text in files: two aligned files with a sentence on each line, or both sides in columns or JSON."""

import functools
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from flax_transformer.common.json_text import parse_json
from flax_transformer.common.quiet import say
from flax_transformer.data.lines import CHUNK, content_suffix, lines_of, read_lines
from flax_transformer.data.tables import csv_rows, named_columns
from flax_transformer.text.languages import name_of

from .corpus import Corpus, Pairs, Records, References


class TextFiles(Corpus):
    """Parts that are read one after the other; a part is the file of both sides, or one file each."""

    def __init__(self, name: str, parts: Sequence[tuple[Path, ...]], settings: dict[str, Any] | None = None) -> None:
        super().__init__(name, [file for part in parts for file in part], settings)
        self._parts = parts
        self._starts: list[int] = []  # index of the first pair of each part begun so far

    @abstractmethod
    def records_of(self, *files: Path) -> Iterator[Records]:
        """The records of one part."""

    def records(self) -> Iterator[Records]:
        self._starts = []
        index = 0
        for part in self._parts:
            self._starts.append(index)
            for records in self.records_of(*part):
                yield records
                index += len(records.sources)

    def place(self, index: int, side: int) -> str:
        files, line = self.located(index)
        return f'{files[side % len(files)]}, line {line + 1}'

    def located(self, index: int) -> tuple[tuple[Path, ...], int]:
        """The part that a pair is in, and its line there, from 0."""
        number = max(i for i, start in enumerate(self._starts) if start <= index)
        return self._parts[number], index - self._starts[number]


class AlignedFiles(TextFiles):
    """Pairs of files: line n of one translates line n of the other. The target of a .tsv is its first column."""

    def records_of(self, *files: Path) -> Iterator[Records]:
        sources, targets = map(lines_of, files)
        if _has_columns(files[1]):
            targets = ([_references(line)[0] for line in lines] for lines in targets)
        source, target = next(sources, []), next(targets, [])
        while source or target:
            # A chunk of long lines is shorter. None stands for the lines of a file that has ended.
            count = min(len(source), len(target)) or max(len(source), len(target))
            yield Records(*(lines[:count] or [None] * count for lines in (source, target)))
            source, target = source[count:] or next(sources, []), target[count:] or next(targets, [])

    def more_references(self) -> list[References]:
        """The further references in the columns of .tsv files: None where a line has fewer."""
        if not any(_has_columns(target) for _, target in self._parts):
            return []
        rows = []
        for _, target in self._parts:
            lines = map(str.encode, read_lines(target))
            rows += [
                [text.decode() for text in _references(line)[1:]] if _has_columns(target) else [] for line in lines
            ]
        return [list(column) for column in zip_longest(*rows)]

    def missing(self, side: int, index: int) -> str:
        # Counted to the end, so that the message can say how far apart the files are.
        files, _ = self.located(index)
        source, target = (sum(map(len, lines_of(file))) for file in files)
        return (
            f'{files[0]} has {source} lines, {files[1]} has {target}; '
            'expected equal counts: line n of one file translates line n of the other'
        )


def read_text_files(source: Path, *targets: Path) -> Pairs:
    """The pairs of a file and of files of its translations; all but the first, or its column, are more references."""
    return read_references(*(AlignedFiles(f'{source},{target}', [(source, target)]) for target in targets))


def read_references(first: AlignedFiles, *others: AlignedFiles) -> Pairs:
    """The pairs of the first, with the targets of the others as more references."""
    pairs = first.read()
    more = first.more_references()
    for other in others:
        more += [other.read().targets, *other.more_references()]
    return Pairs(pairs.sources, pairs.targets, tuple(more))


def _has_columns(file: Path) -> bool:
    return content_suffix(file) == '.tsv'


def _references(line: bytes) -> list[bytes]:
    """The columns that are not blank; [b''] if all are."""
    return [column for column in line.split(b'\t') if column.strip()] or [b'']


class TableFiles(TextFiles):
    """Columns of .tsv, where nothing is quoted, or of .csv; a header line that names both is left out, and said."""

    def __init__(
        self, name: str, files: list[Path], languages: tuple[str, str], columns: tuple[int, int] | None = None
    ) -> None:
        """The columns of source and target count from 1; None: those that the header names, else the first two."""
        sides = zip(({'source', 'src'}, {'target', 'trg', 'tgt', 'translation'}), languages, strict=True)
        names = [own | {language.casefold(), name_of(language).casefold()} for own, language in sides]
        first = next(_rows(files[0]), [[]])[0]
        named = named_columns([cell.decode('utf-8', 'replace') for cell in first], *names)
        self._header: list[bytes] | None = None  # the row that files may begin with
        self._columns = columns or (1, 2)
        if named is not None and columns in (None, named):
            self._header = first
            self._columns = named
            _say_header(files[0], *named)
        super().__init__(name, [(file,) for file in files], {'columns': self._columns})

    def records_of(self, *files: Path) -> Iterator[Records]:
        first = self._num_headers(*files)
        for rows in _rows(*files):
            yield Records(*([_cell(row, column) for row in rows[first:]] for column in self._columns))
            first = 0

    def place(self, index: int, side: int) -> str:
        (file,), row = self.located(index)
        return f'{file}, {"row" if _is_csv(file) else "line"} {row + 1 + self._num_headers(file)}'

    def _num_headers(self, file: Path) -> int:
        """1 if the file begins as the first one does; parts of a table that was cut have no header."""
        return int(self._header is not None and next(_rows(file), [[]])[0] == self._header)

    def expected(self) -> str:
        source, target = self._columns
        return f'the source in column {source} and the target in column {target}'


def _cell(row: list[bytes], column: int) -> bytes | None:
    return row[column - 1] if column <= len(row) else None


def _rows(file: Path) -> Iterator[list[list[bytes]]]:
    """The cells of the rows, in chunks; line breaks in cells become spaces."""
    if not _is_csv(file):
        yield from ([line.split(b'\t') for line in lines] for lines in lines_of(file))
        return
    rows = ([' '.join(cell.splitlines()).encode() for cell in cells] for _, cells in csv_rows(file))
    while chunk := list(islice(rows, CHUNK)):
        yield chunk


def _is_csv(file: Path) -> bool:
    return content_suffix(file) == '.csv'


@functools.cache  # a corpus is read several times
def _say_header(file: Path, source: int, target: int) -> None:
    say(f'{file}: its first line is a header: the source is in column {source}, the target in {target}')


class JsonLines(TextFiles):
    def __init__(self, name: str, files: list[Path], languages: tuple[str, str]) -> None:
        super().__init__(name, [(file,) for file in files], {'languages': languages})
        self._languages = languages

    def records_of(self, *files: Path) -> Iterator[Records]:
        for lines in lines_of(*files):
            yield Records(*zip(*map(self._parse, lines), strict=True))

    def _parse(self, line: bytes) -> tuple[bytes | None, bytes | None]:
        try:
            row = parse_json(line)
        except UnicodeDecodeError:
            return line, line  # decoding it reports what is wrong
        except ValueError:
            return None, None
        if isinstance(row, dict) and isinstance(row.get('translation'), dict):
            row = row['translation']
        if not isinstance(row, dict):
            return None, None
        sides = zip(self._languages, ('source', 'target'), strict=True)
        texts = [row.get(language, row.get(side)) for language, side in sides]
        # A line break would split its line in any text file written from it. Half a surrogate pair, which JSON may
        # hold, becomes bytes that are not UTF-8.
        return tuple(
            text.replace('\n', ' ').encode('utf-8', 'surrogatepass') if isinstance(text, str) else None
            for text in texts
        )

    def expected(self) -> str:
        source, target = self._languages
        return f'an object with the texts "{source}" and "{target}", or "source" and "target"'
