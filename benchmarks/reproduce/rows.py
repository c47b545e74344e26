"""Rows of tables, from what a log says."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.reproduce.experiments import Entry, Experiment, Part
from benchmarks.reproduce.log import Event
from benchmarks.reproduce.settings import Settings
from benchmarks.reproduce.tables import experiments
from benchmarks.reproduce.training import INTERRUPTED

Scorings = dict[tuple[int, ...], list[Event]]  # of seeds, alone or together, in the order of time


@dataclass(frozen=True)
class Row:
    """What is known of an entry; lists have a value for each seed that has one, in the order of `seeds`."""

    name: str
    what: str
    published: str
    command: str
    seeds: list[int]  # those with a score
    tested: list[int]  # those of them with a score on the test set
    is_ensemble: bool  # all seeds together, with one score
    problems: list[str]  # what lacks a score, and what was begun with an earlier config
    validation: list[dict[str, Any]]  # what `evaluate` says
    test: list[dict[str, Any]]
    test_scorings: int  # the largest number of scorings on the test set that were begun for one seed
    sha256: list[str]  # of the translations of the test set or, if there are none, of the validation set
    cpu_minutes: list[float]  # of training
    minutes: list[float]
    is_time_complete: bool  # False: a process was killed, and its time is missing
    hardware: list[str]
    commits: list[str]  # of training
    scored_at: list[str]  # the other commits, at which it was scored


def make_rows(
    entry: Entry, events: Sequence[Event], settings: Settings, options: dict[Part, Sequence[str]]
) -> list[Row]:
    """The row of an entry, and of each ensemble of its seeds, from its experiment's events.

    Args:
      settings: those of the present config; of what was trained with others the row says no more than that it was.
      options: those of `evaluate` for each set.
    """
    earlier = _begun(event for event in events if not settings.train_alike(event))
    events = [event for event in events if settings.train_alike(event)]
    begun = _begun(events)
    found = {part: _scores(events, part, options[part], settings) for part in options}
    seeds = [seed for seed in begun if any((seed,) in by for by in found.values())]
    row = _row(entry, events, seeds, found, [(seed,) for seed in seeds])
    problems = [f'{seed} {_problem(seed, events, options)}' for seed in begun if seed not in seeds]
    for part, by in found.items():
        lacking = [seed for seed in seeds if by and (seed,) not in by]
        problems += [f'{seed} is not scored on the {part} set' for seed in lacking]
    problems += [f'{", ".join(map(str, earlier))} with an earlier config'] if earlier else []
    ensembles = dict.fromkeys(group for by in found.values() for group in by if len(group) > 1)
    together = (_row(entry, events, list(group), found, [group]) for group in ensembles)
    return [replace(row, problems=problems), *together]


def _begun(events: Iterable[Event]) -> list[int]:
    return sorted({event['seed'] for event in events if event['event'] == 'train'})


def _row(
    entry: Entry, events: Sequence[Event], seeds: list[int], found: dict[Part, Scorings], groups: list[tuple[int, ...]]
) -> Row:
    """The row of groups of seeds that were scored together: of one each, or of all."""
    scores = {part: [by[group][-1] for group in groups if group in by] for part, by in found.items()}
    tested = [group for group in groups if group in found.get('test', {})]
    is_ensemble = any(len(group) > 1 for group in groups)
    commits = lambda events: list(dict.fromkeys(str(event['commit']) for event in events))
    mine = [event for event in events if event.get('seed') in seeds]
    starts, ends = ([event for event in mine if event['event'] == name] for name in ('train', 'trained'))
    took = lambda name: [round(sum(e[name] for e in ends if e['seed'] == seed) / 60, 1) for seed in seeds]
    scored_at = commits(event for part in scores.values() for event in part)
    return Row(
        name=f'{entry.name}, ensemble of {", ".join(map(str, sorted(seeds)))}' if is_ensemble else entry.name,
        what=entry.what,
        published='' if is_ensemble else entry.published,
        command=_command(entry.experiment, seeds, *(['--ensemble'] if is_ensemble else [])),
        seeds=seeds,
        tested=[seed for group in tested for seed in group],
        is_ensemble=is_ensemble,
        problems=[],
        validation=[event['scores'] for event in scores['validation']],
        test=[event['scores'] for event in scores.get('test', [])],
        test_scorings=max((_scorings(events, group, found['test'][group]) for group in tested), default=0),
        sha256=[event['sha256'] for event in scores.get('test') or scores['validation']],
        cpu_minutes=took('cpu_seconds'),
        minutes=took('seconds'),
        is_time_complete=len(starts) == len(ends),
        hardware=list(dict.fromkeys(event['hardware'] for event in ends)),
        commits=commits(starts),
        scored_at=[commit for commit in scored_at if commit not in commits(starts)],
    )


def _scorings(events: Sequence[Event], group: tuple[int, ...], done: Sequence[Event]) -> int:
    """How often the scoring that ended in `done` was begun, with whatever search; a kill leaves one without an end."""
    what = {'seeds': list(group), 'set': 'test', 'options': done[-1]['options']}
    begun, ended = (
        [event for event in events if event['event'] == name and what.items() <= event.items()]
        for name in ('scoring', 'score')
    )
    return max(len(begun), len(ended))


def _scores(events: Sequence[Event], part: Part, options: Sequence[str], settings: Settings) -> Scorings:
    """The scorings of each group of seeds, but for ensembles with a member that has been trained again since."""
    what = {'event': 'score', 'set': part, 'options': list(options)}
    found: Scorings = {}
    for event in events:
        if what.items() <= event.items() and settings.are_of(event):
            found.setdefault(tuple(event['seeds']), []).append(event)
    present = {group[0]: by[-1].get('digests') for group, by in found.items() if len(group) == 1}
    is_stale = lambda score: any(
        present.get(seed, [digest]) != [digest] for seed, digest in zip(score['seeds'], score['digests'], strict=True)
    )
    return {group: by for group, by in found.items() if len(group) == 1 or not is_stale(by[-1])}


def _problem(seed: int, events: Sequence[Event], options: dict[Part, Sequence[str]]) -> str:
    mine = [event for event in events if event.get('seed') == seed]
    code = mine[-1]['exit_code'] if mine[-1]['event'] == 'trained' else None
    if code in (None, *INTERRUPTED):
        return 'is not finished'
    if code:
        return f'failed (exit code {code})'
    tried = [event for event in events if event['event'] == 'score failed' and event['seeds'] == [seed]]
    codes = [event['exit_code'] for event in tried if event['options'] in map(list, options.values())]
    failed = [code for code in codes if code not in INTERRUPTED]
    return f'is not scored (exit code {failed[-1]})' if failed else 'is not scored'


def _command(experiment: Experiment, seeds: Sequence[int], *arguments: str) -> str:
    """What repeats a row: `make reproduce CONFIG=... SEEDS=... ARGS=...`."""
    name = experiment.name
    if experiment not in experiments():
        name = experiment.config
        own = experiment.name != Path(experiment.config).stem or experiment.fields
        arguments = (*arguments, *(('--name', experiment.name) if own else ()), *experiment.fields)
    parts = [f'make reproduce CONFIG={shlex.quote(name)}', f"SEEDS='{' '.join(map(str, seeds)) or '1 2 3'}'"]
    return ' '.join([*parts, f'ARGS={shlex.quote(shlex.join(arguments))}'] if arguments else parts)
