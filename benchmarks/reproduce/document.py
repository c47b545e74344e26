"""Rows as Markdown, and their place in RESULTS.md."""

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.reproduce.experiments import Table
from benchmarks.reproduce.rows import Row
from flax_transformer.common.errors import UserError

VALIDATION = 'BLEU on the validation set'
TIMES = 'CPU minutes, minutes'
HEADS = {
    'results': f'result | seeds | {VALIDATION} | BLEU on the test set | chrF, TER on the test set | published | '
    f'{TIMES} | hardware | commit | command',
    'ablation': f'name | what differs | seeds | {VALIDATION} | loss | length ratio | {TIMES} | commit',
    'search': f'search | seeds | {VALIDATION} | length ratio',
}
NOT_RUN = 'not run yet'


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean, sample standard deviation and each value: `41.20 ± 0.15 (41.05, 41.20, 41.35)`."""
    shown = [f'{value:.{digits}f}' for value in values]
    if len(values) < 2:
        return shown[0] if shown else NOT_RUN
    return f'{statistics.fmean(values):.{digits}f} ± {statistics.stdev(values):.{digits}f} ({", ".join(shown)})'


def markdown(table: Table, row: Row) -> str:
    """The row as a line of its table."""
    cells = {'results': _results, 'ablation': _ablation, 'search': _search}[table.columns](row)
    return f'| {" | ".join(cell.replace("|", chr(92) + "|") for cell in cells)} |'


def head(table: Table) -> str:
    """The first two lines of a table."""
    names = HEADS[table.columns]
    return f'| {names} |\n{"| --- " * len(names.split(" | "))}|'


def _results(row: Row) -> list[str]:
    return [
        row.name,
        _seeds(row),
        _bleu(row.validation),
        _bleu(row.test) + (f', scored {row.test_scorings} times' if row.test_scorings > 1 else ''),
        ', '.join(spread([one[name] for one in row.test]) for name in ('chrf', 'ter')) if row.test else '',
        row.published,
        _times(row),
        '; '.join(row.hardware),
        _commits(row),
        f'`{row.command}`',
    ]


def _ablation(row: Row) -> list[str]:
    losses = [one['nll'] * one['target_tokens'] / one['num_lines'] for one in row.validation]
    numbers = [spread(losses, 1) if losses else '', _length_ratio(row), _times(row), _commits(row)]
    return [row.name, row.what, _seeds(row), _validation_bleu(row), *numbers]


def _search(row: Row) -> list[str]:
    return [row.name, _seeds(row), _validation_bleu(row), _length_ratio(row)]


def _validation_bleu(row: Row) -> str:
    return spread([one['bleu'] for one in row.validation])


def _length_ratio(row: Row) -> str:
    return spread([one['length_ratio'] for one in row.validation]) if row.validation else ''


def _commits(row: Row) -> str:
    scored_at = f'; scored at {", ".join(row.scored_at)}' if row.scored_at else ''
    return ', '.join(row.commits) + scored_at


def _seeds(row: Row) -> str:
    return '; '.join(filter(None, (', '.join(map(str, row.seeds)), *row.problems)))


def _bleu(scores: Sequence[dict[str, Any]]) -> str:
    signatures = dict.fromkeys(one['bleu_signature'] for one in scores)
    return '<br>'.join([spread([one['bleu'] for one in scores]), *(f'`{text}`' for text in signatures)])


def _times(row: Row) -> str:
    if not any(row.minutes):
        return ''
    least, of_seeds = '' if row.is_time_complete else 'at least ', sum if row.is_ensemble else statistics.fmean
    return ', '.join(f'{least}{of_seeds(values):.0f}' for values in (row.cpu_minutes, row.minutes))


def replaced(text: str, table: Table, rows: Sequence[Row]) -> str:
    """Returns the document with these rows between the table's two comments, ensembles last.

    Raises UserError if the comments are missing.
    """
    begin, end = f'<!-- {table.name}: begin -->\n', f'<!-- {table.name}: end -->'
    if begin not in text or end not in text:
        raise UserError(f'RESULTS.md has no place for the table {table.name}: expected {begin.strip()!r} and {end!r}')
    before, _, rest = text.partition(begin)
    lines = [head(table), *(markdown(table, row) for row in sorted(rows, key=lambda row: row.is_ensemble))]
    return before + begin + ''.join(f'{line}\n' for line in lines) + end + rest.partition(end)[2]
