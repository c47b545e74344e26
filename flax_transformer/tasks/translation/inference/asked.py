"""What is translated at once: parts of lines, perhaps of several requests."""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

from flax_transformer.text.term_marks import unmarked

from .terms import Demands


class Asked(NamedTuple):
    """The parts of lines to translate, and what is asked of their translations."""

    texts: list[str]
    sources: list[list[int]]  # ids
    prefixes: list[list[int]] | None  # ids that each translation begins with
    demands: Demands | None
    alignment: tuple[bool, ...]  # whether each part's is asked for; (): no part's
    progress: Callable[[int], None] | None

    def parts(self) -> list['Asked']:
        """Each part by itself."""
        parts = []
        for number in range(len(self.texts)):
            own = slice(number, number + 1)
            prefixes = None if self.prefixes is None else self.prefixes[own]
            demands = self.demands.of_part(own) if self.demands and self.demands.wanted[number] else None
            parts.append(Asked(self.texts[own], self.sources[own], prefixes, demands, self.alignment[own], None))
        return parts

    def without_marks(self, rows: Sequence[int], marks: Sequence[int]) -> 'Asked':
        """Some of the parts, without the marks of terms in their sources and without progress."""
        return Asked(
            [self.texts[i] for i in rows],
            [unmarked(self.sources[i], marks)[0] for i in rows],
            None if self.prefixes is None else [self.prefixes[i] for i in rows],
            self.demands.without_marks(rows, self.sources, marks),
            (),
            None,
        )

    @classmethod
    def joined(cls, parts: Sequence['Asked']) -> Self:
        """Parts of several requests that ask for the same."""
        texts, sources, prefixes, demands, alignment, _ = zip(*parts, strict=True)
        chained = itertools.chain.from_iterable
        return cls(
            list(chained(texts)),
            list(chained(sources)),
            None if prefixes[0] is None else list(chained(prefixes)),
            None if demands[0] is None else Demands.joined(demands),
            tuple(chained(alignment)),
            None,
        )
