"""Events as a log of benchmarks.reproduce has them, made up."""

from typing import Any

from benchmarks.reproduce.experiments import Entry, Experiment
from benchmarks.reproduce.rows import Row, make_rows
from benchmarks.reproduce.settings import Settings

TINY = Experiment('tiny', 'number_words')
ENTRY = Entry('tiny', TINY, published='41.02, somebody')
OPTIONS = {'validation': ['--data.test', 'v'], 'test': ['--data.test', 't']}
SIGNATURE = 'nrefs:1|tok:none'
FIELDS = {'model.d_model': 8, 'decoding.alpha': 1.0}
SETTINGS = Settings(FIELDS, frozenset({'decoding.alpha'}))


def scores(bleu: float) -> dict[str, Any]:
    return {
        'bleu': bleu,
        'bleu_signature': SIGNATURE,
        'chrf': 60.0,
        'ter': 40.0,
        'nll': 1.5,
        'target_tokens': 200.0,
        'num_lines': 10,
        'length_ratio': 1.0,
    }


def trained(seed: int, exit_code: int = 0, minutes: float = 2) -> list[dict[str, Any]]:
    end = {'exit_code': exit_code, 'cpu_seconds': 120 * minutes, 'seconds': 60 * minutes, 'hardware': '2 x CPU'}
    facts = {'seed': seed, 'settings': FIELDS}
    return [{'event': 'train', **facts, 'commit': 'abc'}, {'event': 'trained', **facts, **end}]


def scored(bleu: float, *seeds: int, part: str = 'test', commit: str = 'abc') -> dict[str, Any]:
    what = {'seeds': list(seeds), 'set': part, 'options': OPTIONS[part], 'settings': FIELDS, 'commit': commit}
    what['digests'] = [f'run {seed}' for seed in seeds]
    return {'event': 'score', **what, 'scores': scores(bleu), 'sha256': 'f00'}


def begun(event: dict[str, Any]) -> dict[str, Any]:
    """What stands before the event of a scoring."""
    return {name: value for name, value in event.items() if name not in ('scores', 'sha256')} | {'event': 'scoring'}


def other(events: list[dict[str, Any]], **fields: Any) -> list[dict[str, Any]]:
    """The events as they are with other values of some fields."""
    return [event | {'settings': FIELDS | fields} for event in events]


def rows(entry: Entry, events: list[dict[str, Any]], options: dict[Any, Any] = OPTIONS) -> list[Row]:
    return make_rows(entry, events, SETTINGS, options)
