"""The words of a run, the most frequent first, with their counts."""

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import read_limited, write_whole

_MOST = 1 << 32  # bytes of a file that is read


class Vocabulary:
    """Words and how often the training text has each; a word's id is its place."""

    def __init__(self, words: Iterable[str], counts: Iterable[int]) -> None:
        self.words = tuple(words)
        self.counts = np.array(list(counts), np.int64)
        self.ids = {word: number for number, word in enumerate(self.words)}

    @classmethod
    def of(cls, counts: Mapping[str, int], *, min_count: int, size: int) -> 'Vocabulary':
        """The words that occur at least `min_count` times, at most `size` of them; equally frequent ones by name."""
        kept = sorted((w for w, n in counts.items() if n >= min_count), key=lambda word: (-counts[word], word))[:size]
        return cls(kept, (counts[word] for word in kept))

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def digest(self) -> str:
        """A hash of words and counts."""
        return hashlib.sha256(self._text().encode()).hexdigest()

    def _text(self) -> str:
        return ''.join(f'{word} {count}\n' for word, count in zip(self.words, self.counts.tolist(), strict=True))

    def save(self, file: Path) -> None:
        """Writes `word count` on each line."""
        write_whole(file, self._text())

    @classmethod
    def load(cls, file: Path) -> 'Vocabulary':
        """The vocabulary that `save` wrote. Raises UserError if the file is missing or damaged."""
        try:
            rows = [line.rsplit(' ', 1) for line in read_limited(file, most=_MOST).decode('utf-8').split('\n')[:-1]]
            found = cls((word for word, _ in rows), (int(count) for _, count in rows))
        except FileNotFoundError:
            raise UserError(f'{file} is missing: a run directory keeps its vocabulary there') from None
        except ValueError as error:
            raise UserError(f'{file} is damaged ({error}); copy it from the run again') from None
        if len(found.ids) < max(len(found), 2):
            raise UserError(f'{file} is damaged: expected two or more words, each once; copy it from the run again')
        return found
