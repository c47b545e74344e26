"""What passes the check, written as aligned files; and what does not, each line with its reason."""

import contextlib
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import written_whole
from flax_transformer.data.audit.checking import read_all, weigh
from flax_transformer.data.audit.chunks import shown
from flax_transformer.data.audit.kinds import REJECTED
from flax_transformer.data.audit.reading import CorpusFacts
from flax_transformer.data.audit.report import Report
from flax_transformer.data.bitext.config import is_made
from flax_transformer.tasks.translation.config import Config
from flax_transformer.text.tokenizer import Tokenizer

GUARD = 50  # pairs on either side of a shifted stretch that are left out with it


@dataclass(frozen=True)
class Cleaned:
    """What became of one training corpus."""

    name: str
    corpus: str  # in the form of data.train
    rejected_file: Path
    kept: int  # pairs
    rejected: dict[str, int]  # pairs by the first kind of fault that they show


def clean(
    config: Config,
    output: Path,
    *,
    tokenizer: Tokenizer | None = None,
    overwrite: bool = False,
    processes: int = 1,
    progress: Callable[[int], object] | None = None,
) -> tuple[list[Cleaned], Report]:
    """Writes the pairs of the training corpora that show no fault of a kind which KINDS rejects.

    NAME.LANGUAGE are the aligned files, NAME.rejected.tsv has reason, place, source and target of each other pair. A
    file has its name only when it is whole. Text is written as it was, but that a line feed inside a sentence becomes
    a space. The report is that of the corpora before.

    Raises UserError, before anything is read, where a file exists and `overwrite` is False.
    """
    made = [part.train for part in config.data.corpora if is_made(part.train)]
    if made:
        raise UserError(f'{made[0]} is made, not read, and needs no cleaning; expected corpora of text')
    planned = [_paths(output, part.name, (part.source_language, part.target_language)) for part in config.data.corpora]
    paths = [path for paths in planned for path in paths]
    if len(set(paths)) < len(paths):
        names = ', '.join(part.name for part in config.data.corpora)
        raise UserError(f'two of the corpora {names} would be written to the same files; give them other names')
    existing = [path for paths in planned for path in paths if path.exists()]
    if existing and not overwrite:
        raise UserError(
            f'{", ".join(map(str, existing))}: there already; choose another --output, or replace them with --overwrite'
        )
    corpora = read_all(config, tokenizer=tokenizer, processes=processes, keep_reasons=True, progress=progress)
    for file in (file.resolve() for facts in corpora for file in facts.corpus.files):
        if any(file == path.resolve() for paths in planned for path in paths):
            raise UserError(f'{file} is read, and would be overwritten; choose another --output')
    report = weigh(config, corpora, tokenizer=tokenizer)
    for facts in corpora:
        if facts.reasons is not None:
            _widen_shifts(facts.reasons)
    output.mkdir(parents=True, exist_ok=True)
    training = [facts for facts in corpora if facts.role == 'train']
    return [_write(facts, paths) for facts, paths in zip(training, planned, strict=True)], report


def _widen_shifts(reasons: np.ndarray) -> None:
    """Leaves out pairs beside a shifted stretch too: where it begins and ends is known to some lines only."""
    shifted = np.flatnonzero(reasons == REJECTED.index('shifted') + 1)
    for distance in range(1, GUARD + 1):
        beside = np.concatenate([shifted - distance, shifted + distance])
        beside = beside[(beside >= 0) & (beside < len(reasons))]
        reasons[beside[reasons[beside] == 0]] = REJECTED.index('shifted') + 1


def _paths(output: Path, name: str, languages: tuple[str, str]) -> tuple[Path, Path, Path]:
    """The files of the sources, the targets and the rejected pairs."""
    first, second = languages if languages[0] != languages[1] else ('source', 'target')
    name = name.replace(os.sep, '_')
    return output / f'{name}.{first}', output / f'{name}.{second}', output / f'{name}.rejected.tsv'


def _write(facts: CorpusFacts, paths: tuple[Path, Path, Path]) -> Cleaned:
    counts: Counter[str] = Counter()
    index = 0
    with contextlib.ExitStack() as stack:
        sources, targets, rejected = (stack.enter_context(written_whole(path)) for path in paths)
        for chunk in facts.corpus.records():
            for source, target in zip(*chunk, strict=True):
                number = int(facts.reasons[index])
                if number:
                    kind = REJECTED[number - 1]
                    counts[kind] += 1
                    cells = kind, facts.corpus.place(index, 0), shown(source), shown(target)
                    rejected.write('\t'.join(' '.join(cell.split()) for cell in cells).encode() + b'\n')
                else:
                    sources.write(source.replace(b'\n', b' ') + b'\n')
                    targets.write(target.replace(b'\n', b' ') + b'\n')
                index += 1
    first, second = facts.languages
    sides = [str(path.resolve()) for path in paths[:2]]
    corpus = sides[0].removesuffix(first) + '{lang}' if first != second else ','.join(sides)
    by_count = dict(counts.most_common())
    return Cleaned(facts.name, corpus, paths[2], index - counts.total(), by_count)
