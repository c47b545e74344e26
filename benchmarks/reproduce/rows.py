"""Rows of tables, from what a log says."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.reproduce.experiments import Entry, Experiment, Part, Table
from benchmarks.reproduce.log import Event
from benchmarks.reproduce.seeds import INTERRUPTED
from benchmarks.reproduce.tables import experiments

HEADS = {
    'results': (
        'result',
        'seeds',
        'BLEU on the validation set',
        'BLEU on the test set',
        'chrF, TER',
        'published',
        'CPU minutes, minutes',
        'hardware',
        'commit',
        'command',
    ),
    'ablation': (
        'name',
        'what differs',
        'seeds',
        'BLEU on the validation set',
        'perplexity',
        'length ratio',
        'CPU minutes, minutes',
    ),
    'search': ('search', 'seeds', 'BLEU on the validation set', 'length ratio'),
}
NOT_RUN = 'not run yet'
Scorings = dict[tuple[int, ...], list[Event]]  # of seeds, alone or together, in the order of time


@dataclass(frozen=True)
class Row:
    """What is known of an entry; lists have a value for each seed that is scored, in the order of `seeds`."""

    key: str
    what: str
    published: str
    command: str
    seeds: list[int]
    problems: list[str]  # of the other seeds that were begun
    validation: list[dict[str, Any]]  # what `evaluate` says; of an ensemble, one
    test: list[dict[str, Any]]
    test_scorings: int  # the most that a seed was scored on the test set
    sha256: list[str]  # of the translations of the last set
    cpu_minutes: list[float]  # of training
    minutes: list[float]
    is_time_complete: bool  # False: a process was killed, and its time is missing
    hardware: list[str]
    commits: list[str]


def make_rows(entry: Entry, events: Sequence[Event], options: dict[Part, Sequence[str]]) -> list[Row]:
    """The row of an entry, and of each ensemble of its seeds, from its experiment's events.

    Args:
      options: those of `evaluate` for each set.
    """
    begun = sorted({event['seed'] for event in events if event['event'] == 'train'})
    found = {part: _scores(events, part, options[part]) for part in options}
    last = _last(found)
    seeds = [seed for seed in begun if (seed,) in found[last]]
    row = _row(entry, events, seeds, found, [(seed,) for seed in seeds])
    row = replace(row, problems=[f'{seed} {_problem(seed, events)}' for seed in begun if seed not in seeds])
    ensembles = [several for several in found[last] if len(several) > 1]
    return [row, *(_ensemble(_row(entry, events, list(several), found, [several])) for several in ensembles)]


def _row(
    entry: Entry, events: Sequence[Event], seeds: list[int], found: dict[Part, Scorings], groups: list[tuple[int, ...]]
) -> Row:
    """The row of groups of seeds that were scored together: of one each, or of all."""
    scores = {part: [by[group][-1] for group in groups if group in by] for part, by in found.items()}
    last = scores[_last(found)]
    mine = [event for event in events if event.get('seed') in seeds]
    starts, ends = ([event for event in mine if event['event'] == name] for name in ('train', 'trained'))
    took = lambda name: [round(sum(e[name] for e in ends if e['seed'] == seed) / 60, 1) for seed in seeds]
    return Row(
        key=entry.key,
        what=entry.what,
        published=entry.published,
        command=_command(entry.experiment, seeds),
        seeds=seeds,
        problems=[],
        validation=[event['scores'] for event in scores['validation']],
        test=[event['scores'] for event in scores.get('test', [])],
        test_scorings=max((len(found['test'].get(group, [])) for group in groups), default=0) if 'test' in found else 0,
        sha256=[event['sha256'] for event in last],
        cpu_minutes=took('cpu_seconds'),
        minutes=took('seconds'),
        is_time_complete=len(starts) == len(ends),
        hardware=sorted({event['hardware'] for event in ends}),
        commits=sorted({str(event['commit']) for event in starts}),
    )


def _ensemble(row: Row) -> Row:
    return replace(row, key=f'{row.key}, ensemble', published='', command=f'{row.command} ARGS=--ensemble')


def _last(found: dict[Part, Scorings]) -> Part:
    """The set that decides which seeds have scores: the test set, if any of them was scored on it."""
    return 'test' if found.get('test') else 'validation'


def _scores(events: Sequence[Event], part: Part, options: Sequence[str]) -> Scorings:
    found: Scorings = {}
    for event in events:
        if event['event'] == 'score' and (event['set'], event['options']) == (part, list(options)):
            found.setdefault(tuple(event['seeds']), []).append(event)
    return found


def _problem(seed: int, events: Sequence[Event]) -> str:
    ends = [event for event in events if event['event'] == 'trained' and event['seed'] == seed]
    code = ends[-1]['exit_code'] if ends else None
    if code in (None, *INTERRUPTED):
        return 'is not finished'
    return 'is not scored' if code == 0 else f'failed (exit code {code})'


def _command(experiment: Experiment, seeds: Sequence[int]) -> str:
    seeds_of = f"SEEDS='{' '.join(map(str, seeds)) or '1 2 3'}'"
    if experiment in experiments():
        return f'make reproduce CONFIG={experiment.name} {seeds_of}'
    fields = f" ARGS='--name {' '.join((experiment.name, *experiment.fields))}'" if experiment.fields else ''
    return f'make reproduce CONFIG={experiment.config} {seeds_of}{fields}'


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
    return f'| {" | ".join(names)} |\n| {" | ".join("---" for _ in names)} |'


def _results(row: Row) -> list[str]:
    return [
        row.key,
        _seeds(row),
        _bleu(row.validation),
        _bleu(row.test) + (f', scored {row.test_scorings} times' if row.test_scorings > 1 else ''),
        ', '.join(spread([one[name] for one in row.test]) for name in ('chrf', 'ter')) if row.test else '',
        row.published,
        _times(row),
        ', '.join(row.hardware),
        ', '.join(row.commits),
        f'`{row.command}`',
    ]


def _ablation(row: Row) -> list[str]:
    perplexity, length_ratio = _validation(row, 'perplexity', 'length_ratio')
    return [row.key, row.what, _seeds(row), _validation_bleu(row), perplexity, length_ratio, _times(row)]


def _search(row: Row) -> list[str]:
    return [row.key, _seeds(row), _validation_bleu(row), *_validation(row, 'length_ratio')]


def _validation_bleu(row: Row) -> str:
    return spread([one['bleu'] for one in row.validation])


def _validation(row: Row, *names: str) -> list[str]:
    return [spread([one[name] for one in row.validation]) if row.validation else '' for name in names]


def _seeds(row: Row) -> str:
    return '; '.join(filter(None, (', '.join(map(str, row.seeds)), *row.problems)))


def _bleu(scores: Sequence[dict[str, Any]]) -> str:
    signatures = dict.fromkeys(one['bleu_signature'] for one in scores)
    return '<br>'.join([spread([one['bleu'] for one in scores]), *(f'`{text}`' for text in signatures)])


def _times(row: Row) -> str:
    if not row.seeds:
        return ''
    least = '' if row.is_time_complete else 'at least '
    return ', '.join(f'{least}{statistics.fmean(values):.0f}' for values in (row.cpu_minutes, row.minutes))


def replaced(text: str, table: Table, rows: Sequence[Row]) -> str:
    """A document with these rows in the place of those with the same first cell, between the table's two comments.

    Rows that the document lacks come last; one of which nothing was run replaces none. Raises ValueError if the
    comments are missing.
    """
    begin, end = f'<!-- {table.name}: begin -->\n', f'<!-- {table.name}: end -->'
    if begin not in text or end not in text:
        raise ValueError(f'RESULTS.md has no place for the table {table.name}: expected {begin.strip()!r} and {end!r}')
    before, rest = text.split(begin, 1)
    inside, after = rest.split(end, 1)
    lines = {line.split('|')[1].strip(): line for line in inside.splitlines()[2:]}
    for row in rows:
        if row.seeds or row.problems or row.key not in lines:
            lines[row.key] = markdown(table, row)
    body = ''.join(f'{line}\n' for line in lines.values())
    return f'{before}{begin}{head(table)}\n{body}{end}{after}'
