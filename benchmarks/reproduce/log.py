"""What was done in an experiment's folder, one JSON object a line; and what the repository keeps of all machines."""

import contextlib
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.reproduce.experiments import Experiment
from benchmarks.reproduce.settings import Settings
from flax_transformer.common.errors import UserError
from flax_transformer.common.files import write_whole

Event = dict[str, Any]


class Log:
    """The file of events. A line that a kill has cut is passed over."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def add(self, event: str, **facts: Any) -> None:
        """Appends an event."""
        found = {'event': event, 'time': time.strftime('%Y-%m-%dT%H:%M:%S%z'), **facts}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        before = self.file.read_bytes() if self.file.exists() else b''
        is_cut = before and not before.endswith(b'\n')
        with self.file.open('a', encoding='utf-8') as opened:
            opened.write(('\n' if is_cut else '') + json.dumps(found) + '\n')

    def read(self) -> list[Event]:
        """All events, in their order."""
        events = []
        for line in self.file.read_bytes().splitlines() if self.file.exists() else ():
            with contextlib.suppress(ValueError):
                events.append(json.loads(line))
        return events


def kept_log(scores: Path, experiment: Experiment) -> Log:
    """The experiment's log in the folder of scores."""
    return Log(scores / f'{experiment.name}.jsonl')


def joined(kept: Log, own: Log, settings: Settings) -> list[Event]:
    """The events of both logs, each once: those of `kept`, then what `own` adds.

    Raises UserError if each has a run of the same seed with these settings, which a row would take for one, or if seeds
    were trained on different text.
    """
    there, here = kept.read(), own.read()
    added = [event for event in here if event not in there]
    others = [event for event in there if event not in here]
    if twice := _trained(added, settings) & _trained(others, settings):
        raise UserError(
            f'seed {min(twice)} with this config: expected one run, got one in {kept.file} and another in {own.file}; '
            f'take the lines of the first out, or train another seed'
        )
    found = [*there, *added]
    _check_corpora([event for event in found if event['event'] == 'trained' and settings.train_alike(event)])
    return found


def keep_unless_another(kept: Log, own: Log) -> None:
    """Makes `kept` the log `own`, unless it has what another machine did."""
    events = own.read()
    if all(event in events for event in kept.read()):
        keep(kept, events)


def _check_corpora(trained: Sequence[Event]) -> None:
    """Raises UserError if a file was not the same for all seeds. Early logs of full corpora do not say what it was."""
    first: dict[str, tuple[int, str]] = {}
    for event in trained:
        for file, sha256 in event.get('corpus', {}).items():
            seed, expected = first.setdefault(file, (event['seed'], sha256))
            if sha256 != expected:
                raise UserError(
                    f'{file}: seed {event["seed"]} had SHA-256 {sha256}, seed {seed} had {expected}; expected one text '
                    'for all seeds of a row: train with the same files'
                )


def keep(log: Log, events: Sequence[Event]) -> None:
    """Makes these the events of the log."""
    log.file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(log.file, ''.join(f'{json.dumps(event)}\n' for event in events))


def _trained(events: Iterable[Event], settings: Settings) -> set[int]:
    return {event['seed'] for event in events if event['event'] in ('train', 'trained') and settings.train_alike(event)}
