"""Stand-ins for the commands that benchmarks.reproduce runs."""

import json
from pathlib import Path
from typing import Any

from reproduce_events import scores

from benchmarks.reproduce.process import Ended


class Fake:
    """Stands for the commands: notes them, and answers with these exit codes, then with 0."""

    def __init__(self, *exit_codes: int) -> None:
        self.exit_codes, self.asked = list(exit_codes), []

    def __call__(self, argv: list[str], *, stdout: Any = None) -> Ended:
        assert stdout is not None, 'standard output is for rows alone'
        self.asked.append(argv[3:])
        code = self.exit_codes.pop(0) if self.exit_codes else 0
        if argv[3] == 'evaluate' and not code:
            stdout.write(json.dumps(scores(40)).encode())
            output = Path(argv[argv.index('--output') + 1])
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text('eins\n')
        return Ended(code, 60.0, 30.0)


class Translator(Fake):
    """Stands for `translate`, too: it adds its lines in capitals, only the first of them if it is to fail."""

    def __call__(self, argv: list[str], *, stdout: Any = None) -> Ended:
        ended = super().__call__(argv, stdout=stdout)
        if argv[3] == 'translate':
            assert '--resume' in argv
            source, output = (Path(argv[argv.index(option) + 1]) for option in ('--input', '--output'))
            lines = source.read_text().upper().splitlines(keepends=True)
            done = output.read_text().splitlines(keepends=True) if output.exists() else []
            output.write_text(''.join([*done, *lines[len(done) : 1 if ended.exit_code else None]]))
        return ended
