"""A corpus in two parts: the pairs to train on, and those that are held out."""

import copy
from collections.abc import Iterator

import numpy as np

from flax_transformer.data.held_out import held_out_rows
from flax_transformer.data.repeats import keys_of

from .corpus import Corpus, Records


def split(whole: Corpus, held_out: int) -> tuple[Corpus, Corpus]:
    """The rest of a corpus, and `held_out` of its pairs: a sentence is in one part only. Reads the corpus once.

    Raises UserError if it has fewer pairs to give.
    """
    keys: tuple[list[np.ndarray], list[np.ndarray]] = ([np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)])
    for records in whole.records():
        for side, lines in zip(keys, records, strict=True):
            side.append(keys_of([(line or b'').decode('utf-8', 'replace') for line in lines]))
    is_held_out = held_out_rows(whole.name, held_out, *map(np.concatenate, keys))
    settings = {**whole.settings, 'held_out': held_out}
    return Part(whole, whole.name, ~is_held_out, settings), Part(
        whole, f'{whole.name}, held out', is_held_out, settings
    )


class Part(Corpus):
    """The pairs of a corpus that are marked, [pairs] bool."""

    def __init__(self, whole: Corpus, name: str, is_own: np.ndarray, settings: dict[str, object]) -> None:
        super().__init__(name, whole.files, settings)
        self._whole, self._is_own = whole, is_own

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
        """The number of a pair in the whole corpus."""
        return int(np.flatnonzero(self._is_own)[index])
