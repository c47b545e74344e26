"""Rows of tables, from what a log says; as Markdown, and their place in RESULTS.md."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.reproduce.log import INTERRUPTED, Event, trains_alike
from benchmarks.reproduce.tables import Entry, Part, Table


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean, sample standard deviation and each value: `41.20 ± 0.15 (41.05, 41.20, 41.35)`."""
    shown = [f'{value:.{digits}f}' for value in values]
    if len(values) < 2:
        return ''.join(shown)
    return f'{statistics.fmean(values):.{digits}f} ± {statistics.stdev(values):.{digits}f} ({", ".join(shown)})'


@dataclass(frozen=True)
class Row:
    """What is known of an entry's seeds one by one, or of an ensemble of them."""

    entry: Entry
    events: Sequence[Event]  # those of its training, of all seeds
    seeds: Sequence[int]  # those with a score
    scores: dict[Part, list[Event]]  # one for each seed that has one; of an ensemble, one for all
    problems: Sequence[str] = ()  # what lacks a score, and what was begun with an earlier config
    is_ensemble: bool = False

    def trainings(self, event: str) -> list[Event]:
        return [each for each in self.events if each['event'] == event and each['seed'] in self.seeds]

    def values(self, part: Part, name: str) -> list[Any]:
        """What `evaluate` gives by this name, of each seed, or of all together."""
        return [event['scores'][name] for event in self.scores.get(part, [])]

    def name(self) -> str:
        members = ', '.join(map(str, sorted(self.seeds)))
        return f'{self.entry.name}, ensemble of {members}' if self.is_ensemble else self.entry.name

    def seeds_and_problems(self) -> str:
        return '; '.join(filter(None, (', '.join(map(str, self.seeds)), *self.problems)))

    def bleu(self, part: Part = 'validation') -> str:
        return spread(self.values(part, 'bleu')) or 'not run yet'

    def signed_bleu(self, part: Part = 'validation') -> str:
        signatures = dict.fromkeys(self.values(part, 'bleu_signature'))
        return '<br>'.join([self.bleu(part), *(f'`{text}`' for text in signatures)])

    def test_bleu(self) -> str:
        """With how often its scoring was begun, if more than once; a killed one counts, and any search."""
        times = 0
        for test in self.scores.get('test', []):
            what = {'event': 'scoring', **{name: test[name] for name in ('seeds', 'set', 'options')}}
            times = max(times, sum(what.items() <= event.items() for event in self.events))
        return self.signed_bleu('test') + (f', scored {times} times' if times > 1 else '')

    def chrf_and_ter(self) -> str:
        return ', '.join(filter(None, (spread(self.values('test', name)) for name in ('chrf', 'ter'))))

    def loss(self) -> str:
        names = ('nll', 'target_tokens', 'num_lines')
        of_lines = zip(*(self.values('validation', name) for name in names), strict=True)
        return spread([nll * tokens / lines for nll, tokens, lines in of_lines], 1)

    def times(self) -> str:
        starts, ends = self.trainings('train'), self.trainings('trained')
        if not ends:
            return ''
        least, of_seeds = '' if len(starts) == len(ends) else 'at least ', sum if self.is_ensemble else statistics.fmean
        took = lambda seed, name: round(sum(end[name] for end in ends if end['seed'] == seed) / 60, 1)
        minutes = [[took(seed, name) for seed in self.seeds] for name in ('cpu_seconds', 'seconds')]
        return ', '.join(f'{least}{of_seeds(each):.0f}' for each in minutes)

    def commits(self) -> str:
        trained, scored = (
            dict.fromkeys(str(event['commit']) for event in events)
            for events in (self.trainings('train'), [event for part in self.scores.values() for event in part])
        )
        later = ', '.join(commit for commit in scored if commit not in trained)
        return ', '.join(trained) + (f'; scored at {later}' if later else '')

    def command(self) -> str:
        seeds, ensemble = ' '.join(map(str, self.seeds)) or '1 2 3', ' ARGS=--ensemble' * self.is_ensemble
        return f"`make reproduce CONFIG={self.entry.experiment.name} SEEDS='{seeds}'{ensemble}`"


def make_rows(
    entry: Entry, events: Sequence[Event], settings: Mapping[str, Any], options: Mapping[Part, Sequence[str]]
) -> list[Row]:
    """The row of an entry, and of each ensemble of its seeds, from its experiment's events.

    Of what was trained with other settings than these the row says no more than that it was.
    """
    mine = [event for event in events if trains_alike(event, settings)]
    scores: dict[Part, dict[tuple[int, ...], Event]] = {part: {} for part in options}
    for event in mine:
        is_present = event['event'] == 'score' and event['settings'] == settings
        if is_present and event['options'] == options.get(event['set']):
            scores[event['set']][tuple(event['seeds'])] = event
    groups = dict.fromkeys(group for by in scores.values() for group in by)
    starts = [event for event in events if event['event'] == 'train']
    begun = sorted({event['seed'] for event in starts if event in mine})
    earlier = sorted({event['seed'] for event in starts if event not in mine})
    seeds = [seed for seed in begun if (seed,) in groups]
    problems = [f'{seed} {_problem(seed, mine)}' for seed in begun if seed not in seeds]
    for part, by in scores.items():
        problems += [f'{seed} is not scored on the {part} set' for seed in seeds if by and (seed,) not in by]
    problems += [f'{", ".join(map(str, earlier))} with an earlier config'] if earlier else []
    of = lambda *groups: {part: [by[group] for group in groups if group in by] for part, by in scores.items()}
    ensembles = [Row(entry, mine, group, of(group), is_ensemble=True) for group in groups if len(group) > 1]
    return [Row(entry, mine, seeds, of(*((seed,) for seed in seeds)), problems), *ensembles]


def _problem(seed: int, events: Sequence[Event]) -> str:
    code = [event.get('exit_code') for event in events if event.get('seed') == seed][-1]
    usual = {0: 'is not scored', **dict.fromkeys((None, *INTERRUPTED), 'is not finished')}
    return usual.get(code, f'failed (exit code {code})')


VALIDATION, TIMES = 'BLEU on the validation set', 'CPU minutes, minutes'
LENGTH_RATIO = {'length ratio': lambda row: spread(row.values('validation', 'length_ratio'))}
COLUMNS = {
    'results': {
        'result': Row.name,
        'seeds': Row.seeds_and_problems,
        VALIDATION: Row.signed_bleu,
        'BLEU on the test set': Row.test_bleu,
        'chrF, TER on the test set': Row.chrf_and_ter,
        'published': lambda row: '' if row.is_ensemble else row.entry.published,
        TIMES: Row.times,
        'hardware': lambda row: '; '.join(dict.fromkeys(end['hardware'] for end in row.trainings('trained'))),
        'commit': Row.commits,
        'command': Row.command,
    },
    'ablation': {
        'name': Row.name,
        'what differs': lambda row: row.entry.what,
        'seeds': Row.seeds_and_problems,
        VALIDATION: Row.bleu,
        'loss': Row.loss,
        **LENGTH_RATIO,
        TIMES: Row.times,
        'commit': Row.commits,
    },
    'search': {'search': Row.name, 'seeds': Row.seeds_and_problems, VALIDATION: Row.bleu, **LENGTH_RATIO},
}


def markdown(table: Table, rows: Sequence[Row]) -> str:
    """The table with these rows."""
    columns = COLUMNS[table.columns]
    cells = [[cell(row).replace('|', r'\|') for cell in columns.values()] for row in rows]
    return ''.join(f'| {" | ".join(line)} |\n' for line in [columns, ['---'] * len(columns), *cells])


def replaced(text: str, table: Table, rows: Sequence[Row]) -> str:
    """Returns the document with these rows between the table's two comments, ensembles last."""
    first = text.index(begin := f'<!-- {table.name}: begin -->\n') + len(begin)
    last = text.index(f'<!-- {table.name}: end -->')
    return text[:first] + markdown(table, sorted(rows, key=lambda row: row.is_ensemble)) + text[last:]
