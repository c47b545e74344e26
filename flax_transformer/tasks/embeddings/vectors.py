"""Words and their vectors: similar words, neighbors, analogies; files in and out. V words, D width of a vector."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple, Self

import numpy as np

from flax_transformer.common.errors import UserError, nearest
from flax_transformer.data.vector_files import Format, Invalid, read_vectors, write_vectors

Method = Literal['add', 'mul']
EPSILON = 1e-6  # added to 3CosMul's denominator (Levy and Goldberg 2014, section 5)


def normalized(matrix: np.ndarray) -> np.ndarray:
    """The rows of a matrix [..., D] at length 1, float32; a row of zeros stays one."""
    matrix = np.asarray(matrix, np.float64)  # a square may be beyond float32
    lengths = np.linalg.norm(matrix, axis=-1, keepdims=True)
    return (matrix / np.where(lengths == 0, 1, lengths)).astype(np.float32)


_CHUNK = 256  # queries computed at once: 30 MB of scores for 30,000 words


class Neighbor(NamedTuple):
    word: str
    score: float  # the cosine; of 3CosMul, a quotient of products


Neighbour = Neighbor  # the name before


class WordVectors:
    """The vectors of a vocabulary. `vectors['king']` is one, [D] float32.

    ```python
    vectors = WordVectors.load('vectors.bin')
    vectors.similarity('king', 'queen')
    vectors.neighbors('king')
    vectors.analogy('man', 'woman', 'king')
    ```
    """

    def __init__(self, words: Iterable[str], matrix: np.ndarray, *, lower_case: bool = False) -> None:
        """Words, most frequent first if that is known, and their vectors [V, D].

        `lower_case`: words that are asked for are lowered, as the text was. Raises UserError if a word occurs twice, or
        if a number is not finite.
        """
        self.words = tuple(words)
        self.matrix = np.asarray(matrix, np.float32)
        self.lower_case = lower_case
        if self.matrix.ndim != 2 or len(self.words) != len(self.matrix) or not self.matrix.size:
            raise UserError(f'got {len(self.words)} words and a matrix {self.matrix.shape}; expected [words, width]')
        self._ids = {word: number for number, word in enumerate(self.words)}
        if len(self._ids) < len(self.words):
            twice = next(word for number, word in enumerate(self.words) if self._ids[word] != number)
            raise UserError(f'the word {twice!r} occurs twice; expected each word once')
        finite = np.isfinite(self.matrix).all(axis=1)
        if not finite.all():
            raise UserError(f'the vector of {self.words[int(finite.argmin())]!r} is not finite')

    @classmethod
    def from_run(cls, path: Path | str, *, step: int | None = None) -> Self:
        """The vectors of a run's best checkpoint, or of another: by `step`, or as `RUN@last` or `RUN@average`."""
        from flax_transformer.engine.runs.averaging import load_run  # files of vectors need no checkpoints

        from .run import Run

        if Path(path).is_file():
            raise UserError(f'{path} is a file, expected a run directory; WordVectors.load reads files of vectors')
        run = load_run(Run, path, step=step)
        return cls(run.vocabulary.words, run.matrix, lower_case=run.config.tokenizer.lower_case)

    @classmethod
    def load(cls, file: Path | str, form: Format | None = None, *, invalid: Invalid = 'refuse') -> Self:
        """The vectors of a file in word2vec's binary or text format, or in GloVe's; see `data.vector_files`."""
        return cls(*read_vectors(Path(file), form, invalid=invalid))

    @classmethod
    def open(cls, name: Path | str, *, step: int | None = None, invalid: Invalid = 'refuse') -> Self:
        """The vectors of a file, as `load` reads them, or else of a run, as `from_run` does."""
        if not Path(name).is_file():
            return cls.from_run(name, step=step)
        if step is not None:
            raise UserError(f'step={step}: {name} is a file of vectors, not a run with checkpoints')
        return cls.load(name, invalid=invalid)

    def save(self, file: Path | str, form: Format | None = None) -> None:
        """Writes the vectors: binary if the file is named .bin, else as text; 'glove' is text without a header."""
        write_vectors(Path(file), self.words, self.matrix, form)

    @cached_property
    def units(self) -> np.ndarray:
        return normalized(self.matrix)

    @cached_property
    def by_spelling(self) -> dict[str, list[int]]:
        """The ids of the words that are the same in upper case, in order."""
        ids: dict[str, list[int]] = {}
        for number, word in enumerate(self.words):
            ids.setdefault(word.upper(), []).append(number)
        return ids

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return self._spelled(word) in self._ids

    def _spelled(self, word: str) -> str:
        return word.lower() if self.lower_case else word

    def __getitem__(self, word: str) -> np.ndarray:
        return self.matrix[self.id_of(word)]

    def id_of(self, word: str) -> int:
        """The row of a word. Raises UserError, which names the nearest by spelling, for an unknown one."""
        word = self._spelled(word)
        if word not in self._ids:
            raise UserError(f'{word!r} is not in the vocabulary of {len(self):,} words.{nearest(word, self.words)}')
        return self._ids[word]

    def ids_of(self, words: Iterable[str]) -> np.ndarray:
        return np.array([self.id_of(word) for word in words], np.int32)

    def similarity(self, first: str, second: str) -> float:
        """The cosine of two words' vectors; 0 if one is all zeros."""
        rows = self.units[self.ids_of([first, second])].astype(np.float64)
        return float(rows[0] @ rows[1])

    def neighbors(self, word: str | np.ndarray, *, count: int = 10, among: int | None = None) -> list[Neighbor]:
        """The `count` words of highest cosine with a word, which is not among them, or with any vector [D].

        `among`: only the first so many words of the vocabulary; None: all.
        """
        if isinstance(word, str):
            return self.combined([word], count=count, among=among)
        count, units = self._limits(count, among)
        return self._best(units @ normalized(word), (), count)

    neighbours = neighbors

    def analogy(
        self, a: str, b: str, c: str, *, method: Method = 'add', count: int = 10, among: int | None = None
    ) -> list[Neighbor]:
        """What is to `c` as `b` is to `a`: analogy('man', 'woman', 'king') begins with queen, if all is well.

        The three words are no answer. All vectors have length 1. method: add: the highest cosine with b - a + c
        (3CosAdd); mul: the highest cos(b) * cos(c) / cos(a), with the cosines moved to 0 ... 1 (3CosMul, Levy and
        Goldberg 2014). Others: as `neighbors`.
        """
        return self.combined([b, c], [a], method=method, count=count, among=among)

    def combined(
        self,
        plus: Sequence[str],
        minus: Sequence[str] = (),
        *,
        method: Method = 'add',
        count: int = 10,
        among: int | None = None,
    ) -> list[Neighbor]:
        """The words nearest to the words `plus` and farthest from the words `minus`, by the method of `analogy`."""
        plus_ids = self.ids_of(plus)
        minus_ids = self.ids_of(minus)
        count, units = self._limits(count, among)
        if method == 'add':
            query = self.units[plus_ids].sum(axis=0) - self.units[minus_ids].sum(axis=0)
            scores = units @ normalized(query)
        else:
            above, below = (((1 + self.units[ids] @ units.T) / 2).prod(axis=0) for ids in (plus_ids, minus_ids))
            scores = above / (below + EPSILON)
        return self._best(scores, (*plus_ids, *minus_ids), count)

    def answers(self, questions: np.ndarray, *, among: int | None = None) -> np.ndarray:
        """The best word's id [N] for analogies [N, 3] of ids a, b, c, by 3CosAdd.

        No answer is spelled as one of the three, ignoring case.
        """
        _, units = self._limits(1, among)
        answers = []
        for start in range(0, len(questions), _CHUNK):
            rows = questions[start : start + _CHUNK]
            a, b, c = self.units[rows.T]
            scores = (b - a + c) @ units.T
            for own, row in zip(scores, rows.tolist(), strict=True):
                same = [i for word in row for i in self.by_spelling[self.words[word].upper()]]
                own[[i for i in same if i < len(units)]] = -np.inf
            answers += scores.argmax(axis=1).tolist()
        return np.array(answers, np.int32)

    def _limits(self, count: int, among: int | None) -> tuple[int, np.ndarray]:
        """How many words are asked for, and the vectors of those to choose from."""
        for name, value in (('count', count), ('among', among)):
            if value is not None and value < 1:
                raise UserError(f'{name}={value}: expected at least 1')
        units = self.units[:among]
        return min(count, len(units)), units

    def _best(self, scores: np.ndarray, excluded: Iterable[int], count: int) -> list[Neighbor]:
        """The words of the `count` highest scores, of equal ones the more frequent first."""
        scores[[i for i in excluded if i < len(scores)]] = -np.inf
        ids = np.flatnonzero(scores >= np.partition(scores, -count)[-count])
        ids = ids[np.argsort(-scores[ids], kind='stable')][:count]
        pairs = zip(ids.tolist(), scores[ids].tolist(), strict=True)
        return [Neighbor(self.words[i], score) for i, score in pairs if score > -np.inf]
