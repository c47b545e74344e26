"""Translations that are kept in the repository: of a corpus whose licence allows it, with its attribution."""

from pathlib import Path

from benchmarks.reproduce.experiments import Entry
from benchmarks.reproduce.rows import Row
from benchmarks.reproduce.seeds import Seeds
from flax_transformer.common.errors import UserError
from flax_transformer.common.files import sha256_of, write_whole
from flax_transformer.data.bitext.sources import read_corpus


def keep_translations(entry: Entry, seeds: Seeds, row: Row, file: Path) -> None:
    """Writes the test set with the translations of each of the row's seeds, as columns that tabs separate.

    The first line is the attribution, the second names the columns. Raises UserError if the translations are gone, or
    are not those that were scored.
    """
    columns = {}
    for seed, sha256 in zip(row.seeds, row.sha256, strict=True):
        output = seeds.translations([seed], entry.measure, 'test')
        there = sha256_of(output) if output.exists() else 'nothing'
        if there != sha256:
            raise UserError(f'{output}: expected the translations that were scored, SHA-256 {sha256}; got {there}')
        columns[f'seed {seed}'] = output.read_text(encoding='utf-8').split('\n')[:-1]
    data = seeds.config(row.seeds[0]).data
    pairs = read_corpus(seeds.options(entry.measure, 'test')[1], data)
    columns = {data.source_language: pairs.sources, data.target_language: pairs.targets} | columns
    lines = [tuple(columns), *zip(*columns.values(), strict=True)]
    write_whole(file, '\n'.join([entry.attribution, *map('\t'.join, lines), '']))
