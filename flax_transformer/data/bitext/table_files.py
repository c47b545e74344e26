"""Parallel text in files with both sides of a pair on one line: tab-separated columns, or JSON."""

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path

from flax_transformer.common.json_text import parse_json
from flax_transformer.data.bitext.corpus import Records
from flax_transformer.data.bitext.text_files import TextFiles
from flax_transformer.data.lines import lines_of

Pair = tuple[bytes | None, bytes | None]


class TableFiles(TextFiles):
    """Files with a pair on each line; a side that a line lacks is None."""

    def records_of(self, *files: Path) -> Iterator[Records]:
        for lines in lines_of(*files):
            yield Records(*zip(*map(self.parse, lines), strict=True))

    @abstractmethod
    def parse(self, line: bytes) -> Pair:
        """The two sides of a line."""


class TsvFiles(TableFiles):
    """Columns separated by tabs; nothing is quoted."""

    def __init__(self, name: str, files: list[Path], columns: tuple[int, int] = (1, 2)) -> None:
        """The columns of source and target count from 1."""
        super().__init__(name, [(file,) for file in files], {'columns': columns})
        self._columns = columns

    def parse(self, line: bytes) -> Pair:
        cells = line.split(b'\t')
        return tuple(cells[column - 1] if column <= len(cells) else None for column in self._columns)

    def expected(self) -> str:
        source, target = self._columns
        return f'the source in column {source} and the target in column {target}, with tabs between columns'


class JsonLines(TableFiles):
    """A JSON object on each line."""

    def __init__(self, name: str, files: list[Path], languages: tuple[str, str]) -> None:
        super().__init__(name, [(file,) for file in files], {'languages': languages})
        self._languages = languages

    def parse(self, line: bytes) -> Pair:
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
        # A line break inside a JSON string would split its line in any text file written from it. Half a surrogate
        # pair, which JSON may hold, becomes bytes that are not UTF-8 and are reported as such.
        return tuple(
            text.replace('\n', ' ').encode('utf-8', 'surrogatepass') if isinstance(text, str) else None
            for text in texts
        )

    def expected(self) -> str:
        source, target = self._languages
        return (
            f'an object with the texts "{source}" and "{target}" (or those below "translation", or "source", "target")'
        )
