"""What vectors know of words: analogies (Mikolov et al. 2013), and correlations with people's judgements of similarity.

Capitals make no difference: `Athens` stands for the first word of the vocabulary that is spelled so, in any letters.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.data.lines import read_lines
from flax_transformer.tasks.embeddings.vectors import WordVectors

AMONG = 30_000  # most frequent words: questions about others are left out, as is usual for analogies


class SectionScore(NamedTuple):
    """How many analogies of a section were answered rightly."""

    name: str
    right: int
    asked: int  # all four words are known
    total: int

    @property
    def accuracy(self) -> float:
        """Of those asked; NaN for none."""
        return self.right / self.asked if self.asked else float('nan')


class PairScore(NamedTuple):
    """How well cosines agree with people on pairs of words."""

    name: str
    spearman: float  # rank correlation; NaN for fewer than two pairs, or equal numbers
    asked: int  # both words are known
    total: int


def read_analogies(file: Path) -> dict[str, list[tuple[str, str, str, str]]]:
    """The questions of each section of a file: `: name`, then on each line four words, `Athens Greece Oslo Norway`.

    Raises UserError, with the line, for a line of another form.
    """
    sections: dict[str, list[tuple[str, str, str, str]]] = {}
    questions = None
    for number, line in enumerate(read_lines(file), start=1):
        words = line.split()
        if line.startswith(':'):
            name = line[1:].strip()
            if not name or name in sections:
                raise UserError(f'{file}, line {number}: got {line!r}, expected `: ` and a new name of a section')
            questions = sections[name] = []
        elif words:
            if len(words) != 4:
                raise UserError(f'{file}, line {number}: got {len(words)} words, {line[:60]!r}; expected four')
            if questions is None:
                raise UserError(f'{file}, line {number}: expected the name of a section first, such as `: family`')
            questions.append(tuple(words))
    if not any(sections.values()):
        raise UserError(f'{file} has no analogies; expected lines of four words')
    return sections


def read_pairs(file: Path) -> list[tuple[str, str, float]]:
    """The word pairs of a file with people's judgement of each: `tiger<TAB>cat<TAB>7.35`; `#` begins a comment.

    Raises UserError, with the line, for a line of another form.
    """
    pairs = []
    for number, line in enumerate(read_lines(file), start=1):
        if not line.strip() or line.startswith('#'):
            continue
        try:
            first, second, score = line.split('\t')
            pairs.append((first.strip(), second.strip(), float(score)))
        except ValueError:
            raise UserError(f'{file}, line {number}: got {line[:60]!r}, expected word<TAB>word<TAB>number') from None
        if not np.isfinite(pairs[-1][2]):
            raise UserError(f'{file}, line {number}: {score} is not finite')
    if not pairs:
        raise UserError(f'{file} has no pairs; expected word<TAB>word<TAB>number')
    return pairs


def score_analogies(vectors: WordVectors, file: Path, *, among: int | None = AMONG) -> list[SectionScore]:
    """The score of each section by 3CosAdd; questions and answers are `among` the first so many words (None: all).

    Equals gensim's evaluate_word_analogies.
    """
    spelled = _by_spelling(vectors, among)
    sections = read_analogies(file)
    known = {
        name: [ids for words in questions if None not in (ids := [spelled.get(word.lower()) for word in words])]
        for name, questions in sections.items()
    }
    rows = np.array([row for asked in known.values() for row in asked], np.int32).reshape(-1, 4)
    given = vectors.answers(rows[:, :3], among=among)
    is_right = [vectors.words[i].lower() == vectors.words[j].lower() for i, j in zip(given, rows[:, 3], strict=True)]
    found, start = [], 0
    for name, asked in known.items():
        stop = start + len(asked)
        found.append(SectionScore(name, sum(is_right[start:stop]), len(asked), len(sections[name])))
        start = stop
    return found


def total_of(sections: Sequence[SectionScore], name: str = 'all') -> SectionScore:
    """The score of all questions of some sections together."""
    return SectionScore(name, *(sum(column) for column in zip(*(each[1:] for each in sections), strict=True)))


def score_pairs(vectors: WordVectors, file: Path, *, among: int | None = None) -> PairScore:
    """Spearman's rank correlation of cosines with people's judgements, over the pairs whose words are both known."""
    from scipy.stats import spearmanr  # which takes half a second to import

    spelled = _by_spelling(vectors, among)
    pairs = read_pairs(file)
    rows = [(spelled.get(first.lower()), spelled.get(second.lower()), score) for first, second, score in pairs]
    rows = [row for row in rows if None not in row]
    first, second, judged = (np.array(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    correlation = float('nan')
    if len(rows) > 1:
        cosines = (vectors.units[first].astype(np.float64) * vectors.units[second]).sum(axis=1)
        if len(set(cosines.tolist())) > 1 and len(set(judged.tolist())) > 1:  # else scipy warns
            correlation = float(spearmanr(judged, cosines).statistic)
    return PairScore(Path(file).stem, correlation, len(rows), len(pairs))


def _by_spelling(vectors: WordVectors, among: int | None) -> dict[str, int]:
    """The first word of each spelling in lower case, among the first so many."""
    words = vectors.words[:among]
    return {words[i].lower(): i for i in reversed(range(len(words)))}
