"""The pairs that pass the check, written as aligned files, and the others, each with its reason."""

import contextlib
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import written_whole
from flax_transformer.data.audit.checking import open_all, report_on
from flax_transformer.data.audit.chunks import shown
from flax_transformer.data.audit.config import CheckConfig, Vocabulary
from flax_transformer.data.audit.kinds import REJECTED
from flax_transformer.data.audit.reading import CorpusFacts
from flax_transformer.data.audit.report import Report
from flax_transformer.data.bitext.config import CorpusConfig, DataConfig, is_made

GUARD = 50  # pairs on either side of a shifted stretch that are dropped with it


@dataclass(frozen=True)
class Cleaned:
    """The outcome for one training corpus."""

    name: str
    corpus: str  # named as data.train would be
    rejected_file: Path
    kept: int  # pairs
    rejected: dict[str, int]  # pairs by the first kind of fault they show


def clean(
    data: DataConfig,
    check: CheckConfig,
    vocabulary: Vocabulary,
    output: Path,
    *,
    overwrite: bool = False,
    spaces: bool = False,
    processes: int = 1,
    progress: Callable[[int], object] | None = None,
) -> tuple[list[Cleaned], Report]:
    """Writes the pairs of the training corpora that show no fault of a kind that KINDS rejects.

    NAME.LANGUAGE are the aligned files; NAME.rejected.tsv has the reason, place, source and target of every other pair.
    A file gets its name once it is complete. Text is written unchanged, except that a line feed inside a sentence
    becomes a space; with `spaces`, all white space becomes single U+0020, and none is left at the ends. The report
    describes the corpora before cleaning.

    Raises UserError, before anything is read, if a file exists and `overwrite` is False, or if it is one of those that
    are read.
    """
    planned = [_paths(output, part) for part in data.corpora]
    paths = [path for paths in planned for path in paths]
    if len(set(paths)) < len(paths):
        raise UserError('two corpora would be written to the same files; give them other names')
    existing = [path for path in paths if path.exists()]
    if existing and not overwrite:
        raise UserError(
            f'{", ".join(map(str, existing))}: there already; choose another --output, or replace them with --overwrite'
        )
    corpora = list(open_all(data.without_held_out()))  # what training holds out must be cleaned, too
    for file in (file.resolve() for facts in corpora for file in facts.corpus.files):
        if any(file == path.resolve() for path in paths):
            raise UserError(f'{file} is read, and would be overwritten; choose another --output')
    report = report_on(corpora, data, check, vocabulary, processes=processes, progress=progress)
    output.mkdir(parents=True, exist_ok=True)
    training = [facts for facts in corpora if facts.role == 'train']
    for facts in filter(len, training):
        _widen_shifts(facts.pairs.reasons)
    return [_write(facts, paths, spaces) for facts, paths in zip(training, planned, strict=True)], report


def _widen_shifts(reasons: np.ndarray) -> None:
    """Also drops pairs next to a shifted stretch: its ends are known only to within some lines."""
    shifted = np.flatnonzero(reasons == REJECTED.index('shifted') + 1)
    for distance in range(1, GUARD + 1):
        nearby = np.concatenate([shifted - distance, shifted + distance])
        nearby = nearby[(nearby >= 0) & (nearby < len(reasons))]
        reasons[nearby[reasons[nearby] == 0]] = REJECTED.index('shifted') + 1


def _paths(output: Path, part: CorpusConfig) -> tuple[Path, Path, Path]:
    """The files of the sources, the targets and the rejected pairs. Raises UserError for a corpus that is generated."""
    if is_made(part.train):
        raise UserError(f'{part.train} is made, not read, and needs no cleaning; expected corpora of text')
    languages = part.source_language, part.target_language
    first, second = languages if languages[0] != languages[1] else ('source', 'target')
    name = part.name.replace(os.sep, '_')
    return output / f'{name}.{first}', output / f'{name}.{second}', output / f'{name}.rejected.tsv'


def _write(facts: CorpusFacts, paths: tuple[Path, Path, Path], spaces: bool) -> Cleaned:
    counts: Counter[str] = Counter()
    index = 0
    with contextlib.ExitStack() as stack:
        sources, targets, rejected = (stack.enter_context(written_whole(path)) for path in paths)
        for chunk in facts.corpus.records():
            for source, target in zip(*chunk, strict=True):
                number = int(facts.pairs.reasons[index])
                if number:
                    kind = REJECTED[number - 1]
                    counts[kind] += 1
                    cells = kind, facts.corpus.place(index, 0), shown(source), shown(target)
                    rejected.write('\t'.join(' '.join(cell.split()) for cell in cells).encode() + b'\n')
                else:
                    for file, line in ((sources, source), (targets, target)):
                        plain = ' '.join(line.decode('utf-8').split()).encode() if spaces else line
                        file.write(plain.replace(b'\n', b' ') + b'\n')
                index += 1
    first, second = facts.languages
    sides = [str(path.resolve()) for path in paths[:2]]
    corpus = sides[0].removesuffix(first) + '{lang}' if first != second else ','.join(sides)
    by_count = dict(counts.most_common())
    return Cleaned(facts.name, corpus, paths[2], index - counts.total(), by_count)
