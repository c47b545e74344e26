"""Both sides of a pair in one line: tab-separated columns, or JSON."""

import json
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path

from flax_transformer.data.bitext.corpus import Corpus, Records
from flax_transformer.data.lines import lines_of

Pair = tuple[bytes | None, bytes | None]


class TableFiles(Corpus):
    """Files of which each line holds a pair; a side that a line lacks is None."""

    def records(self) -> Iterator[Records]:
        self._starts, index = [], 0
        for file in self.files:
            self._starts.append(index)
            for lines in lines_of(file):
                yield Records(*zip(*map(self.parse, lines), strict=True))
                index += len(lines)

    def place(self, index: int, side: int) -> str:
        number = max(i for i, start in enumerate(self._starts) if start <= index)
        return f'{self.files[number]}, line {index - self._starts[number] + 1}'

    @abstractmethod
    def parse(self, line: bytes) -> Pair:
        """The two sides of a line."""

    @abstractmethod
    def expected(self) -> str:
        """What each line is expected to hold."""

    def missing(self, side: int, index: int) -> str:
        return f'{self.place(index, side)}: there is no {("source", "target")[side]}; expected {self.expected()}'


class TsvFiles(TableFiles):
    """Lines of columns with tabs between them; nothing is quoted."""

    def __init__(self, name: str, files: list[Path], columns: tuple[int, int] = (1, 2)) -> None:
        """Columns count from 1: that of the source, that of the target."""
        super().__init__(name, files, {'columns': columns})
        self._columns = columns

    def parse(self, line: bytes) -> Pair:
        cells = line.split(b'\t')
        return tuple(cells[column - 1] if column <= len(cells) else None for column in self._columns)

    def expected(self) -> str:
        source, target = self._columns
        return f'the source in column {source} and the target in column {target}, with tabs between columns'


class JsonLines(TableFiles):
    """A JSON object a line."""

    def __init__(self, name: str, files: list[Path], languages: tuple[str, str]) -> None:
        super().__init__(name, files, {'languages': languages})
        self._languages = languages

    def parse(self, line: bytes) -> Pair:
        try:
            row = json.loads(line)
        except UnicodeDecodeError:
            return line, line  # whoever decodes it says what is wrong
        except (ValueError, RecursionError):
            return None, None
        if isinstance(row, dict) and isinstance(row.get('translation'), dict):
            row = row['translation']
        if not isinstance(row, dict):
            return None, None
        sides = zip(self._languages, ('source', 'target'), strict=True)
        texts = [row.get(language, row.get(side)) for language, side in sides]
        # A line break inside a JSON string would tear its line apart in every text file that comes of it. Half of a
        # surrogate pair, which JSON may hold, becomes bytes that are not UTF-8, and are found as such.
        return tuple(
            text.replace('\n', ' ').encode('utf-8', 'surrogatepass') if isinstance(text, str) else None
            for text in texts
        )

    def expected(self) -> str:
        source, target = self._languages
        return (
            f'an object with the texts "{source}" and "{target}" (or those below "translation", or "source", "target")'
        )
