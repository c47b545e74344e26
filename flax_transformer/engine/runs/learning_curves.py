"""Training runs side by side: a table of their results and of how their configs differ, and their learning curves."""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from flax_transformer.common.config_json import changed_fields, flat_fields
from flax_transformer.common.errors import UserError
from flax_transformer.common.fields import marked
from flax_transformer.common.quiet import aligned
from flax_transformer.engine.monitor.progress import is_lower_better
from flax_transformer.engine.monitor.reporter import METRICS_FILE, read_metrics
from flax_transformer.plots.curves import plot_learning_curves
from flax_transformer.plots.look import Figure, png

from .run_directory import RunDirectory

Records = list[dict[str, Any]]
# Validation scores shown if any run has them, and their names in tables.
SCORES = {'loss': 'loss', 'bleu': 'BLEU', 'accuracy': 'accuracy', 'word_error_rate': 'WER'}
UNITS = {'loss': 'nats', 'bleu': '0 to 100', 'accuracy': 'share', 'word_error_rate': 'share'}
PANELS = (('train', 'loss'), *(('validation', score) for score in SCORES), ('train', 'learning_rate'))


def table(runs: Sequence[RunDirectory]) -> str:
    """Steps, best scores and speed by run, and the fields in which they differ."""
    configs = [run.read_config() for run in runs]
    records = [_read(run.path) for run in runs]
    scores = [name for name in SCORES if name == 'loss' or any(_points(own, 'validation', name) for own in records)]
    best = [title for name in scores for title in (f'best {SCORES[name]}', 'at step')]
    units = {_counted(own).rpartition('_')[2] for own in records} - {''}
    speed = f'{units.pop()}/s' if len(units) == 1 else 'per second'  # runs of several tasks count different things
    rows = [['run', 'steps', 'train loss', *best, speed, 'spikes']]
    rows += [[str(run.path), *_row(own, scores)] for run, own in zip(runs, records, strict=True)]
    lines = aligned(rows) + _signatures(runs, records, scores)
    if differing := _differences(configs):
        lines += ['', *aligned([['field', *(str(run.path) for run in runs)], *differing])]
    elif len(runs) > 1:
        lines += ['', 'their configs are the same']
    return '\n'.join(lines)


def plot_curves(paths: Sequence[Path | str]) -> Figure:
    """Losses, scores and learning rate by step, a line for each run. Needs matplotlib."""
    records = [_read(Path(path)) for path in paths]
    curves = {}
    units = {}
    marked = []
    for kind, name in PANELS:
        points = [_points(own, kind, name) for own in records]
        if any(points):
            title = f'{kind} {SCORES.get(name, name)}'.replace('_', ' ')
            curves[title] = points
            units[title] = UNITS.get(name, '')
            if kind == 'validation':
                marked.append(title)
    return plot_learning_curves(curves, [str(path) for path in paths], marked=marked, units=units)


def _points(records: Records, kind: str, name: str) -> list[tuple[int, float]]:
    return [(record['step'], record[name]) for record in records if record['kind'] == kind and name in record]


def _read(run: Path) -> Records:
    file = run / METRICS_FILE
    if not file.is_file():
        raise UserError(f'{run} has no {METRICS_FILE}: nothing was measured in it yet')
    records = [_readable(record) for record in read_metrics(run)]
    if not any(record['kind'] in ('train', 'validation') for record in records):
        raise UserError(f'{file} has no records yet; train for at least training.log_every steps')
    return records


def _readable(record: dict[str, Any]) -> dict[str, Any]:
    """Drops what is neither a finite number nor printable: a stranger may have written the record."""

    def is_sound(name: str, value: Any) -> bool:
        if isinstance(value, str):
            return name == 'kind' or (name.endswith('_signature') and value.isprintable())
        return type(value) in (int, float) and abs(value) <= 1e300

    return {name: value for name, value in record.items() if is_sound(name, value)}


def _row(records: Records, scores: Sequence[str]) -> list[str]:
    train = [record for record in records if record['kind'] == 'train']
    cells = [
        f'{max(record["step"] for record in records):,}',
        f'{train[-1]["loss"]:.4g}' if train and 'loss' in train[-1] else '-',
    ]
    for name in scores:
        choose = min if is_lower_better(name) else max
        step, best = choose(_points(records, 'validation', name), key=itemgetter(1), default=(0, None))
        cells += ['-', '-'] if best is None else [f'{best:.4g}', f'{step:,}']
    return [*cells, _speed(train), str(sum(record['kind'] == 'spike' for record in records))]


def _signatures(runs: Sequence[RunDirectory], records: Sequence[Records], scores: Sequence[str]) -> list[str]:
    lines = []
    for name in scores:
        runs_of: dict[str, list[str]] = {}
        for run, own in zip(runs, records, strict=True):
            for signature in {record.get(f'{name}_signature'): None for record in own}:
                if signature:
                    runs_of.setdefault(signature, []).append(str(run.path))
        for signature, paths in runs_of.items():
            whose = f' of {", ".join(paths)}' if len(runs_of) > 1 else ''
            lines.append(f'{SCORES[name]}{whose}: {signature}')
    return lines


def _counted(records: Records) -> str:
    """The metric that counts what the task trains on, such as target_tokens; '' if there is none."""
    first = next((record for record in records if record['kind'] == 'train'), {})
    return next((name for name in first if f'{name}_per_second' in first), '')


def _speed(train: Records) -> str:
    """What the task counts per second: total by total time, since reports cover different steps."""
    amount = _counted(train)
    rate = f'{amount}_per_second'
    measured = [record for record in train if record.get(rate, 0) > 0 and amount in record]
    seconds = sum(record[amount] / record[rate] for record in measured)
    return f'{sum(record[amount] for record in measured) / seconds:,.0f}' if seconds else '-'


def _differences(configs: Sequence[Any]) -> list[list[str]]:
    cosmetic = marked(configs[0], 'cosmetic')
    names = {name for other in configs[1:] for name in changed_fields(configs[0], other)} - cosmetic
    rows = []
    fields = [flat_fields(config) for config in configs]
    for name in sorted(names):
        values = ['-' if own.get(name) is None else repr(own[name]) for own in fields]
        rows.append([name, *(value if len(value) <= 40 else value[:37] + '...' for value in values)])
    return rows


@contextlib.contextmanager
def live_curves(*runs: Path | str, every: float = 2.0) -> Iterator[None]:
    """Draws the curves of run directories below the cell, and again whenever a run reports, while the block lasts.

        with live_curves('runs/mine'):
            train(config, 'runs/mine')

    Looks every `every` seconds. The runs need not exist yet. Needs matplotlib and IPython (extra `notebooks`).
    """
    from IPython.display import display

    handle = display(_picture(()), raw=True, display_id=True)
    stop = threading.Event()

    def watch() -> None:
        seen = None
        while not stop.wait(every):
            now = [_size(run) for run in runs]
            if now != seen:
                seen = now
                handle.update(_picture(runs), raw=True)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()
        handle.update(_picture(runs), raw=True)


def _picture(runs: Sequence[Path | str]) -> dict[str, Any]:
    begun = [run for run in runs if _size(run)]
    if begun:
        with contextlib.suppress(UserError):  # a loss is yet to come
            return {'text/plain': 'learning curves', 'image/png': png(plot_curves(begun), dpi=72)}
    return {'text/plain': 'nothing was reported yet'}


def _size(run: Path | str) -> int:
    file = Path(run) / METRICS_FILE
    return file.stat().st_size if file.is_file() else 0
