"""What was done in an experiment's folder: one JSON object a line, only ever appended to."""

import contextlib
import json
import time
from pathlib import Path
from typing import Any

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
