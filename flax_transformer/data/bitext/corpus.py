"""Parallel text: in memory, or read in chunks when it may be larger than memory; and the pairs held out of it."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.data.held_out import held_out_rows
from flax_transformer.data.lines import utf8_fault
from flax_transformer.data.repeats import keys_of

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
        """The pairs in chunks, none of them damaged."""
        first = 0
        for records in self.records():
            yield Pairs(*(self._decoded(side, lines, first) for side, lines in enumerate(records)))
            first += len(records.sources)
        if not first:
            raise UserError(self.nothing())

    def read(self) -> Pairs:
        sources, targets = [], []
        for pairs in self.pairs():
            sources += pairs.sources
            targets += pairs.targets
        return Pairs(sources, targets)

    def nothing(self) -> str:
        files = f' ({", ".join(map(str, self.files))})' if self.files else ''
        return f'corpus {self.name!r} is empty{files}; expected at least one sentence pair'

    def missing(self, side: int, index: int) -> str:
        return f'{self.place(index, side)}: there is no {("source", "target")[side]}; expected {self.expected()}'

    def expected(self) -> str:
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


def split(whole: Corpus, held_out: int) -> tuple[Corpus, Corpus]:
    """The rest of a corpus, and `held_out` of its pairs: a sentence is in one part only. Reads the corpus once."""
    keys: tuple[list[np.ndarray], list[np.ndarray]] = ([np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)])
    for records in whole.records():
        for side, lines in zip(keys, records, strict=True):
            side.append(keys_of([(line or b'').decode('utf-8', 'replace') for line in lines]))
    is_held_out = held_out_rows(whole.name, held_out, *map(np.concatenate, keys))
    settings = {**whole.settings, 'held_out': held_out}
    rest = _Part(whole, whole.name, ~is_held_out, settings)
    return rest, _Part(whole, f'{whole.name}, held out', is_held_out, settings)


class _Part(Corpus):
    """The pairs of a corpus that are marked, [pairs] bool."""

    def __init__(self, whole: Corpus, name: str, is_own: np.ndarray, settings: dict[str, object]) -> None:
        super().__init__(name, whole.files, settings)
        self._whole = whole
        self._is_own = is_own

    def records(self) -> Iterator[Records]:
        # A copy: the places of what this part has read must stay known while another part is read.
        self._whole = copy.copy(self._whole)
        first = 0
        for records in self._whole.records():
            own = np.flatnonzero(self._is_own[first : first + len(records.sources)])
            first += len(records.sources)
            if len(own):
                yield Records(*([lines[i] for i in own] for lines in records))

    def place(self, index: int, side: int) -> str:
        return self._whole.place(self._number(index), side)

    def missing(self, side: int, index: int) -> str:
        return self._whole.missing(side, self._number(index))

    def _number(self, index: int) -> int:
        return int(np.flatnonzero(self._is_own)[index])
