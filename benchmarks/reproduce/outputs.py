"""Translations that are kept in the repository: of a corpus whose licence allows it, with its attribution."""

import hashlib
from pathlib import Path

from benchmarks.reproduce.experiments import Entry
from benchmarks.reproduce.rows import Row
from benchmarks.reproduce.training import Runs
from flax_transformer.common.errors import UserError
from flax_transformer.common.files import write_whole
from flax_transformer.data.bitext.sources import read_corpus


def keep_translations(entry: Entry, runs: Runs, row: Row, file: Path) -> None:
    """Writes the test set with the translations of each of the row's seeds, as columns that tabs separate.

    The first line is the attribution, the second names the columns. Those of seeds that another machine trained are
    taken from the file itself. Raises UserError if translations are gone, or are not those that were scored, or if the
    file is of another test set.
    """
    there = columns_in(file)
    columns = {}
    for seed, sha256 in zip(row.tested, row.sha256, strict=True):
        name, output = f'seed {seed}', runs.translations([seed], entry.measure, 'test')
        texts = [output.read_text(encoding='utf-8')] if output.exists() else []
        texts += [''.join(f'{line}\n' for line in there[name])] if name in there else []
        sums = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
        if sha256 not in sums:
            got = ' and '.join(sums) or 'nothing'
            raise UserError(f'{output}: expected the translations that were scored, SHA-256 {sha256}; got {got}')
        columns[name] = texts[sums.index(sha256)].split('\n')[:-1]
    test = entry.measure.test or runs.data.test
    pairs = read_corpus(test, runs.data)
    sides = {runs.data.source_language: pairs.sources, runs.data.target_language: pairs.targets}
    if there and any(list(there.get(language, ())) != lines for language, lines in sides.items()):
        raise UserError(f'{file} has other sentences than {test}; score with the test set that it is of')
    columns = sides | columns
    lines = [tuple(columns), *zip(*columns.values(), strict=True)]
    write_whole(file, '\n'.join([entry.attribution, *map('\t'.join, lines), '']))


def columns_in(file: Path) -> dict[str, tuple[str, ...]]:
    """The columns of such a file, by name; none if it does not exist."""
    if not file.exists():
        return {}
    names, *lines = (line.split('\t') for line in file.read_text(encoding='utf-8').split('\n')[1:-1])
    return dict(zip(names, zip(*lines, strict=True), strict=True))
