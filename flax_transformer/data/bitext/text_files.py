"""Parallel text in files with a sentence on each line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flax_transformer.data.bitext.corpus import Corpus, Pairs, Records
from flax_transformer.data.lines import lines_of


class AlignedFiles(Corpus):
    """Pairs of files, one sentence a line: line n of one translates line n of the other."""

    def __init__(self, name: str, files: list[tuple[Path, Path]], settings: dict[str, Any] | None = None) -> None:
        super().__init__(name, [file for both in files for file in both], settings)
        self._pairs_of_files = files
        self._starts: list[int] = []  # of each pair of files that was begun: the index of its first pair

    def records(self) -> Iterator[Records]:
        self._starts, index = [], 0
        for both in self._pairs_of_files:
            self._starts.append(index)
            for records in _aligned(*(lines_of(file) for file in both)):
                yield records
                index += len(records.sources)

    def place(self, index: int, side: int) -> str:
        number, line = self._found(index)
        return f'{self._pairs_of_files[number][side]}, line {line + 1}'

    def _found(self, index: int) -> tuple[int, int]:
        number = max(i for i, start in enumerate(self._starts) if start <= index)
        return number, index - self._starts[number]

    def missing(self, side: int, index: int) -> str:
        # Counted to the end, so that the message can say how far the files are apart.
        both = self._pairs_of_files[self._found(index)[0]]
        source, target = (sum(len(lines) for lines in lines_of(file)) for file in both)
        return (
            f'{both[0]} has {source} lines, {both[1]} has {target}; '
            'expected equal counts: line n of one file translates line n of the other'
        )


def _aligned(sources: Iterator[list[bytes]], targets: Iterator[list[bytes]]) -> Iterator[Records]:
    """Chunks of two files side by side, None where one of them has ended."""
    while True:
        both = next(sources, []), next(targets, [])
        count = max(map(len, both))
        if not count:
            return
        yield Records(*(lines + [None] * (count - len(lines)) for lines in both))


def read_text_files(source: Path, target: Path) -> Pairs:
    """The pairs of two aligned files. Raises UserError where their numbers of lines differ or there are none."""
    return AlignedFiles(f'{source},{target}', [(source, target)]).read()
