"""The pairs that pass the check, written as aligned files, and the others, each with its reason."""

import contextlib
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import written_whole
from flax_transformer.data.bitext.config import CorpusConfig, DataConfig, is_made

from .checking import audit
from .config import CheckConfig, Vocabulary
from .pairs import shown
from .parts import Part, open_all
from .report import Report

GUARD = 50  # pairs on either side of a shifted stretch that are dropped with it
# The kinds whose pairs are left out; a pair that shows several has the first as its reason, and `shifted` the last.
REJECTED = (
    *('missing_side', 'invalid_utf8', 'swapped_pair', 'wrong_language', 'copy', 'blank', 'too_long', 'length_ratio'),
    *('control', 'entity', 'mojibake', 'duplicate', 'leaked', 'shifted'),
)


@dataclass(frozen=True)
class Cleaned:
    name: str
    corpus: str  # named as data.train would be
    rejected_file: Path
    kept: int  # pairs
    rejected: dict[str, int]  # pairs by the first kind of fault they show

    def __str__(self) -> str:
        rejected = sum(self.rejected.values())
        lines = [f'{self.name}: {self.kept:,} pairs kept, {rejected:,} left out, see {self.rejected_file}']
        return '\n'.join([*lines, *(f'  {count:>10,}  {kind}' for kind, count in self.rejected.items())])


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
    """Writes the pairs of the training corpora that show no fault of a kind in REJECTED.

    NAME.LANGUAGE are the aligned files; NAME.rejected.tsv has the reason, place, source and target of every other pair.
    Text is written unchanged, except that a line feed inside a sentence becomes a space; with `spaces`, all white space
    becomes single U+0020, and none is left at the ends. The report describes the corpora before cleaning.
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
    parts = open_all(data.without_held_out())  # what training holds out must be cleaned, too
    read = {file.resolve() for part in parts for file in part.corpus.files}
    for path in paths:
        if path.resolve() in read:
            raise UserError(f'{path} is read, and would be overwritten; choose another --output')
    report = audit(data, check, vocabulary, parts, processes=processes, progress=progress)
    output.mkdir(parents=True, exist_ok=True)
    training = [part for part in parts if part.role == 'train']
    return [_write(part, *files, spaces=spaces) for part, files in zip(training, planned, strict=True)], report


def _paths(output: Path, part: CorpusConfig) -> tuple[Path, Path, Path]:
    if is_made(part.train):
        raise UserError(f'{part.train} is made, not read, and needs no cleaning; expected corpora of text')
    languages = part.source_language, part.target_language
    first, second = languages if languages[0] != languages[1] else ('source', 'target')
    name = part.name.replace(os.sep, '_')
    return output / f'{name}.{first}', output / f'{name}.{second}', output / f'{name}.rejected.tsv'


def _reasons(part: Part) -> dict[int, str]:
    """The kind for which each rejected pair is left out.

    Pairs next to a shifted stretch are left out, too: its ends are known only to within some lines.
    """
    reasons: dict[int, str] = {}
    nearby: set[int] = set()
    for kind in REJECTED:
        for row in part.rows.get(kind, ()):
            reasons.setdefault(row, kind)
    shifted = part.rows.get('shifted', {})
    for row in shifted:
        if row - 1 not in shifted:
            nearby.update(range(row - GUARD, row))
        if row + 1 not in shifted:
            nearby.update(range(row + 1, row + 1 + GUARD))
    for row in nearby:
        reasons.setdefault(row, 'shifted')
    return reasons


def _write(part: Part, source_file: Path, target_file: Path, rejected_file: Path, *, spaces: bool) -> Cleaned:
    reasons = _reasons(part)
    counts: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        sources, targets, rejected = (
            stack.enter_context(written_whole(path)) for path in (source_file, target_file, rejected_file)
        )
        for row, pair in enumerate(part.pairs_again()):
            if kind := reasons.get(row):
                counts[kind] += 1
                cells = kind, part.corpus.place(row, 0), *map(shown, pair)
                rejected.write('\t'.join(' '.join(cell.split()) for cell in cells).encode() + b'\n')
                continue
            for file, line in zip((sources, targets), pair, strict=True):
                plain = ' '.join(line.decode('utf-8').split()).encode() if spaces else line
                file.write(plain.replace(b'\n', b' ') + b'\n')
    first, second = part.languages
    source = str(source_file.resolve())
    corpus = source.removesuffix(first) + '{lang}' if first != second else f'{source},{target_file.resolve()}'
    return Cleaned(part.name, corpus, rejected_file, len(part) - counts.total(), dict(counts.most_common()))
