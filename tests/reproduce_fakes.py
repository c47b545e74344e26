"""Made-up events, as a log of benchmarks.reproduce has them, and stand-ins for the commands that it runs."""

import json
from pathlib import Path
from typing import Any

from benchmarks.reproduce.rows import Row, make_rows
from benchmarks.reproduce.tables import Entry, Experiment

TINY = Experiment('tiny', 'number_words')
ENTRY = Entry('tiny', TINY, published='41.02, somebody')
OPTIONS = {'validation': ['--data.test', 'v'], 'test': ['--data.test', 't']}
FIELDS = {'model.d_model': 8, 'decoding.alpha': 1.0}


def scores(bleu: float) -> dict[str, Any]:
    others = {'chrf': 60.0, 'ter': 40.0, 'nll': 1.5, 'target_tokens': 200.0, 'num_lines': 10, 'length_ratio': 1.0}
    return {'bleu': bleu, 'bleu_signature': 'nrefs:1|tok:none', **others}


def trained(seed: int, exit_code: int = 0, minutes: float = 2) -> list[dict[str, Any]]:
    end = {'exit_code': exit_code, 'cpu_seconds': 120 * minutes, 'seconds': 60 * minutes, 'hardware': '2 x CPU'}
    facts = {'seed': seed, 'settings': FIELDS}
    return [{'event': 'train', **facts, 'commit': 'abc'}, {'event': 'trained', **facts, **end}]


def scored(bleu: float, *seeds: int, part: str = 'test') -> list[dict[str, Any]]:
    what = {'seeds': list(seeds), 'set': part, 'options': OPTIONS[part], 'settings': FIELDS, 'commit': 'abc'}
    return [{'event': 'scoring', **what}, {'event': 'score', **what, 'scores': scores(bleu)}]


def other(events: list[dict[str, Any]], **fields: Any) -> list[dict[str, Any]]:
    """The events as they are with other values of some fields."""
    return [event | {'settings': FIELDS | fields} for event in events]


def rows(entry: Entry, events: list[dict[str, Any]]) -> list[Row]:
    return make_rows(entry, events, FIELDS, OPTIONS)


class Fake:
    """Stands for the commands: notes them, and answers with these exit codes, then with 0.

    `translate` adds its lines in capitals, only the first of them if it is to fail.
    """

    def __init__(self, *exit_codes: int) -> None:
        self.exit_codes, self.asked = list(exit_codes), []

    def __call__(self, argv: list[str], *, stdout: Any = None) -> dict[str, float]:
        assert stdout is not None, 'standard output is for rows alone'
        self.asked.append(argv[3:])
        code = self.exit_codes.pop(0) if self.exit_codes else 0
        path = lambda option: Path(argv[argv.index(option) + 1])
        if argv[3] == 'train':
            path('--workdir').mkdir(parents=True, exist_ok=True)
        if argv[3] == 'evaluate' and not code:
            stdout.write(json.dumps(scores(40)).encode())
            path('--output').write_text('eins\n')
        if argv[3] == 'translate':
            assert '--resume' in argv
            lines, output = path('--input').read_text().upper().splitlines(keepends=True), path('--output')
            done = output.read_text().splitlines(keepends=True) if output.exists() else []
            output.write_text(''.join([*done, *lines[len(done) : 1 if code else None]]))
        return {'exit_code': code, 'cpu_seconds': 60.0, 'seconds': 30.0}
