"""What `flax-transformer evaluate RUN` does for word vectors."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flax_transformer.common.errors import UserError
from flax_transformer.data.named_files import ROOT_VARIABLE, data_root
from flax_transformer.tasks.embeddings.benchmarks import (
    AMONG,
    PairScore,
    SectionScore,
    read_analogies,
    read_pairs,
    score_analogies,
    score_pairs,
    total_of,
)

if TYPE_CHECKING:
    from tqdm import tqdm

    from flax_transformer.tasks.embeddings.vectors import WordVectors

DESCRIPTION = """Score word vectors, of a run or a file as for `neighbours`: analogies by section (3CosAdd), and
Spearman's correlation of cosines with people's judgements of similarity, with how many questions the vocabulary covers.
Without --analogies and --pairs the files wordvec_eval/{questions-words.txt,wordsim353.tsv,simlex999.tsv} below
$FLAX_TRANSFORMER_DATA, else data/, are used."""

FOLDER = 'wordvec_eval'
ANALOGIES, PAIRS = 'questions-words.txt', ('wordsim353.tsv', 'simlex999.tsv')


@dataclass(frozen=True)
class EvaluateOptions:
    analogies: Path | None = None  # a file of `: section` lines and lines of four words
    pairs: tuple[Path, ...] = ()  # files of word<TAB>word<TAB>judgement
    among: int = AMONG  # analogies: only about the first so many words of the vocabulary
    step: int | None = None  # the checkpoint; None: the best, or training.average_last's mean
    json: bool = False  # print one JSON object instead


def defaults(config: Any) -> EvaluateOptions:
    """The options for a run of any config."""
    return EvaluateOptions()


def evaluate(
    runs: list[str], options: EvaluateOptions, *, note: Callable[[str], None], progress_bar: 'Callable[..., tqdm]'
) -> None:
    """Prints the scores of a run, or of a file of vectors."""
    if len(runs) > 1:
        raise UserError(f'got {len(runs)} runs, expected one: word vectors form no ensemble')
    if options.among < 1:
        raise UserError(f'--among {options.among}: expected at least 1')
    analogies, pairs = benchmark_files(options.analogies, options.pairs)
    if analogies is not None:  # before the vectors, which take longer to read
        read_analogies(analogies)
    for file in pairs:
        read_pairs(file)

    from flax_transformer.tasks.embeddings.vectors import WordVectors

    vectors = WordVectors.open(runs[0], step=options.step)
    sections, correlations = score(vectors, analogies, pairs, among=options.among)
    if options.json:
        print(json.dumps(_object(vectors, sections, correlations), ensure_ascii=False))
    else:
        print('\n'.join(lines_of(vectors, sections, correlations, options.among)))


def benchmark_files(analogies: Path | None, pairs: tuple[Path, ...]) -> tuple[Path | None, tuple[Path, ...]]:
    """The files to score on: those given, or if there are none those of the usual names in the data folder.

    Raises UserError if there are none at all.
    """
    if analogies is not None or pairs:
        return analogies, pairs
    folder = data_root(None) / FOLDER
    usual = folder / ANALOGIES
    found = usual if usual.is_file() else None, tuple(folder / name for name in PAIRS if (folder / name).is_file())
    if found == (None, ()):
        raise UserError(
            f'{folder} has none of {ANALOGIES}, {", ".join(PAIRS)}; set ${ROOT_VARIABLE}, or give --analogies FILE or '
            '--pairs FILE'
        )
    return found


def score(
    vectors: 'WordVectors', analogies: Path | None, pairs: tuple[Path, ...], *, among: int = AMONG
) -> tuple[list[SectionScore], list[PairScore]]:
    """The scores of the analogies' sections, none without a file, and of each file of pairs."""
    sections = [] if analogies is None else score_analogies(vectors, analogies, among=among)
    correlations = [score_pairs(vectors, file) for file in pairs]
    if len({each.name for each in correlations}) < len(correlations):  # as x/p.tsv and y/p.tsv
        correlations = [each._replace(name=str(file)) for each, file in zip(correlations, pairs, strict=True)]
    return sections, correlations


def _with_total(sections: list[SectionScore]) -> list[SectionScore]:
    """Sections and the score of all; a section of that name is shown as another, so that `all` is always the total."""
    if not sections:
        return []
    total, names = total_of(sections), {each.name for each in sections}
    other = f'{total.name} (section)'
    while other in names:
        other += "'"
    return [*(each._replace(name=other) if each.name == total.name else each for each in sections), total]


def lines_of(
    vectors: 'WordVectors', sections: list[SectionScore], correlations: list[PairScore], among: int = AMONG
) -> list[str]:
    """The scores for people."""
    lines = [f'{len(vectors):,} words, {vectors.matrix.shape[1]} values each']
    if sections:
        shown = _with_total(sections)
        width = max(len(each.name) for each in shown)
        lines += ['', f'analogies (3CosAdd) among the {min(among, len(vectors)):,} most frequent words']
        lines += [
            f'  {each.name:{width}}  {_share(each):>7}  {each.right:,} of {each.asked:,}; {each.total:,} in the file'
            for each in shown
        ]
    if correlations:
        width = max(len(each.name) for each in correlations)
        lines += ['', "Spearman's correlation with people"]
        lines += [
            f'  {each.name:{width}}  {each.spearman:6.3f}  {each.asked:,} of {each.total:,} pairs'
            for each in correlations
        ]
    return lines


def _share(section: SectionScore) -> str:
    return f'{section.accuracy:.1%}' if section.asked else '-'


def _object(vectors: 'WordVectors', sections: list[SectionScore], correlations: list[PairScore]) -> dict[str, Any]:
    """The scores as JSON; null where there were no questions."""
    return {
        'words': len(vectors),
        'width': vectors.matrix.shape[1],
        'analogies': {
            each.name: {**each._asdict(), 'accuracy': each.accuracy if each.asked else None}
            for each in _with_total(sections)
        },
        'pairs': {
            each.name: {**each._asdict(), 'spearman': each.spearman if each.spearman == each.spearman else None}
            for each in correlations
        },
    }
