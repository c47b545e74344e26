"""Training corpora derived from others: subsets, and copies with one side translated by a model."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import write_whole
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.data.bitext.sources import read_corpus

Translate = Callable[[Sequence[str]], list[str]]


def write_subset(data: DataConfig, pairs: int, folder: Path) -> None:
    """Writes `pairs` pairs of the training corpus to the folder's train.LANGUAGE, unless just these are there.

    Subsets are nested: the first pairs of one shuffled order.
    """
    corpus = read_corpus(data.train, data)
    if len(corpus) < pairs:
        raise UserError(f'{data.train}: got {len(corpus):,} pairs, expected at least {pairs:,}')
    chosen = np.random.default_rng(0).permutation(len(corpus))[:pairs]
    _write(data, folder, *([lines[i] for i in chosen] for lines in (corpus.sources, corpus.targets)))


def write_with_translations(data: DataConfig, teachers: Iterable[tuple[DataConfig, Translate]], folder: Path) -> None:
    """Writes the training corpus, then one more copy for each teacher, with one side replaced by its translation.

    A teacher, given as the text that it was trained on and a function, translates into the target language, or back
    from it (Nguyen et al. 2020, "Data Diversification", algorithm 1).
    """
    corpus = read_corpus(data.train, data)
    sources, targets = list(corpus.sources), list(corpus.targets)
    for of_teacher, translate in teachers:
        is_forward = of_teacher.source_language == data.source_language
        sources += corpus.sources if is_forward else translate(corpus.targets)
        targets += translate(corpus.sources) if is_forward else corpus.targets
    _write(data, folder, sources, targets)


def write_lines(lines: Sequence[str], file: Path) -> None:
    """Writes the file, unless just these lines are there."""
    text = ''.join(f'{line}\n' for line in lines)
    if not file.exists() or file.read_bytes() != text.encode():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, text)


def _write(data: DataConfig, folder: Path, sources: Sequence[str], targets: Sequence[str]) -> None:
    for language, lines in ((data.source_language, sources), (data.target_language, targets)):
        write_lines(lines, folder / f'train.{language}')
