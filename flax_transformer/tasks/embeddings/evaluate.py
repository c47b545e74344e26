"""What `flax-transformer evaluate RUN` does for word vectors: analogies, and correlations with people's judgments.

Capitals make no difference: `Athens` stands for the first word of the vocabulary that is spelled so, in any letters.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.quiet import Say
from flax_transformer.data.lines import read_lines
from flax_transformer.data.named_files import ROOT_VARIABLE, data_root
from flax_transformer.engine.task_value import Command
from flax_transformer.tasks.evaluation import only_run, print_scores

from .vectors import WordVectors

TOTAL = 'all'  # the name of all sections together
AMONG = 30_000  # most frequent words: questions about others are left out, as is usual for analogies


class SectionScore(NamedTuple):
    name: str
    right: int
    asked: int  # all four words are known
    total: int

    @property
    def accuracy(self) -> float:
        """NaN if nothing is asked."""
        return self.right / self.asked if self.asked else float('nan')


class PairScore(NamedTuple):
    name: str
    spearman: float  # rank correlation; NaN for fewer than two pairs, or equal numbers
    asked: int  # both words are known
    total: int


def read_analogies(file: Path) -> dict[str, list[tuple[str, str, str, str]]]:
    """The questions of each section: `: name`, then on each line four words, `Athens Greece Oslo Norway`."""
    sections: dict[str, list[tuple[str, str, str, str]]] = {}
    questions = None
    for number, line in enumerate(read_lines(file), start=1):
        words = line.split()
        if line.startswith(':'):
            name = line[1:].strip()
            if name in ('', TOTAL, *sections):
                expected = f'`: ` and a new name of a section, not {TOTAL!r}'
                raise UserError(f'{file}, line {number}: got {line!r}, expected {expected}')
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
    """The pairs of a file with people's judgments: `tiger<TAB>cat<TAB>7.35`; `#` begins a comment."""
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
    """The score of each section by 3CosAdd; questions and answers are `among` the first so many words (None: all)."""
    spelled = _by_spelling(vectors, among)
    sections = read_analogies(file)
    known = {}
    for name, questions in sections.items():
        ids = [[spelled.get(word.upper()) for word in words] for words in questions]
        known[name] = [question for question in ids if None not in question]

    rows = np.array([row for asked in known.values() for row in asked], np.int32).reshape(-1, 4)
    given = vectors.answers(rows[:, :3], among=among)
    pairs = zip(given, rows[:, 3], strict=True)
    is_right = iter([vectors.words[i].upper() == vectors.words[j].upper() for i, j in pairs])
    return [
        SectionScore(name, sum(islice(is_right, len(asked))), len(asked), len(sections[name]))
        for name, asked in known.items()
    ]


def total_of(sections: Sequence[SectionScore]) -> SectionScore:
    return SectionScore(TOTAL, *(sum(column) for column in zip(*(section[1:] for section in sections), strict=True)))


def score_pairs(vectors: WordVectors, file: Path) -> PairScore:
    """The correlation of cosines with people's judgments, over the pairs whose words are both known."""
    from scipy.stats import spearmanr  # half a second

    spelled = _by_spelling(vectors, None)
    pairs = read_pairs(file)
    rows = [(spelled.get(first.upper()), spelled.get(second.upper()), score) for first, second, score in pairs]
    rows = [row for row in rows if None not in row]

    correlation = float('nan')
    if len(rows) > 1:
        first, second, judged = map(np.array, zip(*rows, strict=True))
        cosines = (vectors.units[first].astype(np.float64) * vectors.units[second]).sum(axis=1)
        if len(set(cosines.tolist())) > 1 and len(set(judged.tolist())) > 1:  # else scipy warns
            correlation = float(spearmanr(judged, cosines).statistic)
    return PairScore(Path(file).stem, correlation, len(rows), len(pairs))


def _by_spelling(vectors: WordVectors, among: int | None) -> dict[str, int]:
    """The first word of each spelling in upper case."""
    return {spelling: ids[0] for spelling, ids in vectors.by_spelling.items() if among is None or ids[0] < among}


FOLDER = 'wordvec_eval'
ANALOGIES = 'questions-words.txt'
PAIRS = ('wordsim353.tsv', 'simlex999.tsv')


@dataclass(frozen=True)
class Options:
    analogies: Path | None = None  # a file of `: section` lines and lines of four words
    pairs: tuple[Path, ...] = ()  # files of word<TAB>word<TAB>judgment
    among: int = AMONG  # analogies: only about the first so many words of the vocabulary
    step: int | None = None  # the checkpoint; None: the best, or training.average_last's mean
    invalid: Literal['refuse', 'replace'] = 'refuse'  # a word in a file that is not UTF-8: refuse it, or use U+FFFD
    json: bool = False  # print one JSON object instead


def evaluate(runs: list[str], options: Options, *, note: Say, progress_bar: Callable[..., Any]) -> None:
    run = only_run(runs, 'word vectors')
    if options.among < 1:
        raise UserError(f'--among {options.among}: expected at least 1')
    analogies, pairs = benchmark_files(options.analogies, options.pairs)
    if analogies is not None:  # the vectors take longer to read
        read_analogies(analogies)
    for file in pairs:
        read_pairs(file)

    vectors = WordVectors.open(run, step=options.step, invalid=options.invalid)
    sections, correlations = score(vectors, analogies, pairs, among=options.among)
    shown = [*sections, total_of(sections)] if sections else []
    result = {
        'words': len(vectors),
        'width': vectors.matrix.shape[1],
        'analogies': {section.name: {**section._asdict(), 'accuracy': _or_none(section.accuracy)} for section in shown},
        'pairs': {file.name: {**file._asdict(), 'spearman': _or_none(file.spearman)} for file in correlations},
    }
    print_scores(result, lines_of(vectors, sections, correlations, options.among), as_json=options.json)


def _or_none(score: float) -> float | None:
    """JSON has no NaN."""
    return None if np.isnan(score) else score


def benchmark_files(analogies: Path | None, pairs: tuple[Path, ...]) -> tuple[Path | None, tuple[Path, ...]]:
    """Those given, else those of the usual names. Raises UserError if there are none."""
    if analogies is not None or pairs:
        return analogies, pairs
    folder = data_root(None) / FOLDER
    usual = folder / ANALOGIES
    analogies = usual if usual.is_file() else None
    pairs = tuple(folder / name for name in PAIRS if (folder / name).is_file())
    if analogies is None and not pairs:
        raise UserError(
            f'{folder} has none of {ANALOGIES}, {", ".join(PAIRS)}; set ${ROOT_VARIABLE}, or give --analogies FILE or '
            '--pairs FILE'
        )
    return analogies, pairs


def score(
    vectors: WordVectors, analogies: Path | None, pairs: tuple[Path, ...], *, among: int = AMONG
) -> tuple[list[SectionScore], list[PairScore]]:
    sections = [] if analogies is None else score_analogies(vectors, analogies, among=among)
    correlations = [score_pairs(vectors, file) for file in pairs]
    if len({own.name for own in correlations}) < len(correlations):  # x/p.tsv and y/p.tsv share a name
        correlations = [own._replace(name=str(file)) for own, file in zip(correlations, pairs, strict=True)]
    return sections, correlations


def lines_of(
    vectors: WordVectors, sections: list[SectionScore], correlations: list[PairScore], among: int = AMONG
) -> list[str]:
    lines = [f'{len(vectors):,} words, {vectors.matrix.shape[1]} values each']
    if sections:
        shown = [*sections, total_of(sections)]
        width = max(len(score.name) for score in shown)
        lines += ['', f'analogies (3CosAdd) among the {min(among, len(vectors)):,} most frequent words']
        for name, right, asked, total in shown:
            accuracy = f'{right / asked:.1%}' if asked else '-'
            lines.append(f'  {name:{width}}  {accuracy:>7}  {right:,} of {asked:,}; {total:,} in the file')
    if correlations:
        width = max(len(score.name) for score in correlations)
        lines += ['', "Spearman's correlation with people"]
        for name, spearman, asked, total in correlations:
            lines.append(f'  {name:{width}}  {spearman:6.3f}  {asked:,} of {total:,} pairs')
    return lines


EVALUATE = Command(
    Options,
    evaluate,
    """Score word vectors, of a run or a file as for `neighbors`: analogies by section (3CosAdd), and
Spearman's correlation of cosines with people's judgments of similarity, with how many questions the vocabulary covers.
Without --analogies and --pairs the files wordvec_eval/{questions-words.txt,wordsim353.tsv,simlex999.tsv} below
$FLAX_TRANSFORMER_DATA, else data/, are used.""",
)
