"""Parallel text: in memory, or read in chunks when it may be larger than memory."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from flax_transformer.common.errors import UserError
from flax_transformer.data.lines import utf8_fault

References = list[str | None]  # one for each sentence; None: it has no more


@dataclass(frozen=True)
class Pairs:
    """Aligned sentences: targets[i] translates sources[i], and so does references[k][i] for any further references."""

    sources: list[str]
    targets: list[str]
    references: tuple[References, ...] = ()

    def __len__(self) -> int:
        return len(self.sources)


class Records(NamedTuple):
    """Consecutive pairs as stored on disk, which should be UTF-8. None: this side has no such line."""

    sources: Sequence[bytes | None]
    targets: Sequence[bytes | None]


class Corpus(ABC):
    """A corpus, read from beginning to end in chunks, as often as needed."""

    def __init__(self, name: str, files: Sequence[Path] = (), settings: dict[str, Any] | None = None) -> None:
        self.name = name
        self.files = tuple(files)  # hold the text; none if it is generated
        self.settings = settings or {}  # what else decides the text

    @abstractmethod
    def records(self) -> Iterator[Records]:
        """The pairs as stored, damaged ones included, in chunks of some CHUNK."""

    @abstractmethod
    def place(self, index: int, side: int) -> str:
        """File and line of pair `index`, which has been read; side 0 is the source, 1 the target."""

    def pairs(self) -> Iterator[Pairs]:
        """The pairs in chunks. Raises UserError, with file and line, for a line that is missing or is not UTF-8."""
        first = 0
        for records in self.records():
            yield Pairs(*(self._decoded(side, lines, first) for side, lines in enumerate(records)))
            first += len(records.sources)
        if not first:
            raise UserError(self.nothing())

    def read(self) -> Pairs:
        """All pairs, in memory."""
        sources, targets = [], []
        for pairs in self.pairs():
            sources += pairs.sources
            targets += pairs.targets
        return Pairs(sources, targets)

    def nothing(self) -> str:
        """The message for a corpus without pairs."""
        files = f' ({", ".join(map(str, self.files))})' if self.files else ''
        return f'corpus {self.name!r} is empty{files}; expected at least one sentence pair'

    def missing(self, side: int, index: int) -> str:
        """The message for a pair that lacks a side."""
        return f'{self.place(index, side)}: there is no {("source", "target")[side]}; expected {self.expected()}'

    def expected(self) -> str:
        """What each record is expected to hold."""
        return 'both sides of each pair'

    def _decoded(self, side: int, lines: Sequence[bytes | None], first: int) -> list[str]:
        texts: list[str] = []
        try:
            for line in lines:
                texts.append(line.decode('utf-8'))
        except AttributeError:
            raise UserError(self.missing(side, first + len(texts))) from None
        except UnicodeDecodeError as error:
            raise UserError(f'{self.place(first + len(texts), side)}: {utf8_fault(error)}') from None
        return texts
