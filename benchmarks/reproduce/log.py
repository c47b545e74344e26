"""What was done in an experiment's folder, one JSON object a line."""

import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flax_transformer.common.errors import EXIT_CODE
from flax_transformer.data.bitext.config import CorpusConfig

Event = dict[str, Any]
INTERRUPTED = (EXIT_CODE, 130, -2, -15)  # exit codes of commands that continue when they are started again
UNUSED_IN_TRAINING = ('decoding.', 'check.', 'parallel.', 'data.test', 'data.bleu_tokenizer')


def read_logs(*files: Path) -> list[Event]:
    """The events of the files, each once. A line that a full disk has cut is passed over.

    Corpora get the fields that they have now and had not when the event was written, at their defaults.
    """
    defaults = asdict(CorpusConfig(name='any', train='any'))
    events = []
    for line in dict.fromkeys(line for file in files if file.exists() for line in file.read_bytes().splitlines()):
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            settings = event.get('settings') or {}
            if 'data.mixture' in settings:
                settings['data.mixture'] = [defaults | corpus for corpus in settings['data.mixture']]
            events.append(event)
    return events


def add_to_log(file: Path, event: str, **facts: Any) -> None:
    found = {'event': event, 'time': time.strftime('%Y-%m-%dT%H:%M:%S%z'), **facts}
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open('a', encoding='utf-8') as opened:
        print(json.dumps(found), file=opened)


def trains_alike(event: Event, settings: Mapping[str, Any]) -> bool:
    """Whether an event is of these settings, or of others with which the same run would be trained."""
    of_training = lambda fields: {name: fields[name] for name in fields if not name.startswith(UNUSED_IN_TRAINING)}
    return of_training(event.get('settings') or {}) == of_training(settings)
