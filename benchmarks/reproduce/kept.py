"""What the repository keeps of each experiment: the log of all machines that trained seeds for RESULTS.md."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.reproduce.experiments import Experiment
from benchmarks.reproduce.log import Event, Log
from benchmarks.reproduce.settings import Settings
from flax_transformer.common.errors import UserError
from flax_transformer.common.files import write_whole


def kept_log(scores: Path, experiment: Experiment) -> Log:
    """The experiment's log in the folder of scores."""
    return Log(scores / f'{experiment.name}.jsonl')


def joined(kept: Log, own: Log, settings: Settings) -> list[Event]:
    """The events of both logs, each once: those of `kept`, then what `own` adds.

    Raises UserError if each has a run of the same seed with these settings: a row would take them for one.
    """
    there, here = kept.read(), own.read()
    added = [event for event in here if event not in there]
    others = [event for event in there if event not in here]
    if twice := _trained(added, settings) & _trained(others, settings):
        raise UserError(
            f'seed {min(twice)} with this config: expected one run, got one in {kept.file} and another in {own.file}; '
            f'take the lines of the first out, or train another seed'
        )
    return [*there, *added]


def keep(log: Log, events: Sequence[Event]) -> None:
    """Makes these the events of the log."""
    log.file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(log.file, ''.join(f'{json.dumps(event)}\n' for event in events))


def _trained(events: Iterable[Event], settings: Settings) -> set[int]:
    return {event['seed'] for event in events if event['event'] in ('train', 'trained') and settings.are_of(event)}
