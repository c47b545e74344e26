"""Parallel text in memory."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pairs:
    """Aligned sentences: sources[i] is translated by targets[i]."""

    sources: list[str]
    targets: list[str]

    def __len__(self) -> int:
        return len(self.sources)
