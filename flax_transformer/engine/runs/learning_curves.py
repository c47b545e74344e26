"""Training runs side by side: a table of how each went and in what they differ, and their learning curves."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flax_transformer.common.config_json import changed_fields
from flax_transformer.common.errors import UserError
from flax_transformer.engine.monitor.reporter import METRICS_FILE, read_metrics
from flax_transformer.engine.runs.run_directory import RunDirectory
from flax_transformer.tasks.translation.config import Config

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Of a run's fields these say nothing about how it learns.
UNTOLD = {
    *('data.root', 'data.cache'),
    *(
        f'training.{name}'
        for name in ('log_every', 'checkpoint_every', 'keep_last', 'keep_best', 'sample_translations')
    ),
    *(f'training.{name}' for name in ('smoothing_steps', 'spike_deviations', 'on_full_disk', 'sample_translations')),
    *(f'training.{name}' for name in ('profile_from', 'profile_steps', 'draw_attention')),
}
PANELS = (('train', 'loss'), ('validation', 'loss'), ('validation', 'bleu'), ('train', 'learning_rate'))


def table(paths: Sequence[Path | str]) -> str:
    """Steps, best scores and speed of each run, and the fields in which they differ. Raises UserError for no run."""
    runs = [_read(path) for path in paths]
    header = ['run', 'steps', 'train loss', 'best loss', 'at step', 'best BLEU', 'at step', 'tokens/s', 'spikes']
    rows = [header, *([str(path), *_row(records)] for path, (_, records) in zip(paths, runs, strict=True))]
    lines = [_aligned(rows)]
    differing = _differences([config for config, _ in runs])
    if differing:
        lines += ['', _aligned([['field', *map(str, paths)], *differing])]
    elif len(runs) > 1:
        lines += ['', 'their configs are the same']
    return '\n'.join(lines)


def plot(paths: Sequence[Path | str]) -> 'Figure':
    """Loss in training and validation, BLEU and learning rate by step: a line for each run. Needs matplotlib."""
    from matplotlib.figure import Figure  # not pyplot: no window, and nothing kept

    runs = [_read(path) for path in paths]
    of = {panel: [_points(records, *panel) for _, records in runs] for panel in PANELS}
    panels = [panel for panel in PANELS if any(of[panel])]
    figure = Figure(figsize=(6 * min(len(panels), 2), 3.6 * -(-len(panels) // 2)), layout='constrained')
    for number, (kind, name) in enumerate(panels, start=1):
        axes = figure.add_subplot(-(-len(panels) // 2), min(len(panels), 2), number)
        for color, points in enumerate(of[kind, name]):
            if points:
                marker = 'o-' if kind == 'validation' else '-'
                axes.plot(*zip(*points, strict=True), marker, markersize=3, color=f'C{color}')
        axes.set_title(f'{kind} {name}'.replace('_', ' ').replace('bleu', 'BLEU'))
        axes.set_xlabel('step')
        axes.grid(alpha=0.3)
    handles = [figure.axes[0].plot([], [], color=f'C{number}')[0] for number in range(len(paths))]
    figure.legend(handles, [str(path) for path in paths], loc='outside upper center', ncols=min(len(paths), 3))
    return figure


def _points(records: list[dict[str, Any]], kind: str, name: str) -> list[tuple[int, float]]:
    return [(record['step'], record[name]) for record in records if record['kind'] == kind and name in record]


def _read(path: Path | str) -> tuple[Config, list[dict[str, Any]]]:
    run = RunDirectory(path)
    config = run.read_config()
    if not (run.path / METRICS_FILE).is_file():
        raise UserError(f'{run.path} has no {METRICS_FILE}: nothing was measured in it yet')
    records = read_metrics(run.path)
    if not any(record['kind'] in ('train', 'validation') for record in records):
        raise UserError(f'{run.path / METRICS_FILE} has no record yet; train for training.log_every steps at least')
    return config, records


def _row(records: list[dict[str, Any]]) -> list[str]:
    train = [record for record in records if record['kind'] == 'train']
    validation = [record for record in records if record['kind'] == 'validation']
    cells = [f'{max(record["step"] for record in records):,}', f'{train[-1]["loss"]:.4g}' if train else '-']
    for name, choose in (('loss', min), ('bleu', max)):
        found = [record for record in validation if name in record]
        best = choose(found, key=lambda record: record[name], default=None)
        cells += [f'{best[name]:.4g}', f'{best["step"]:,}'] if best else ['-', '-']
    # Tokens by time, not the mean of the rates: reports may be of different numbers of steps.
    seconds = sum(record['target_tokens'] / record['target_tokens_per_second'] for record in train)
    cells.append(f'{sum(record["target_tokens"] for record in train) / seconds:,.0f}' if seconds else '-')
    return [*cells, str(sum(record['kind'] == 'spike' for record in records))]


def _differences(configs: Sequence[Config]) -> list[list[str]]:
    names = {name for other in configs[1:] for name in changed_fields(configs[0], other)} - UNTOLD
    rows = []
    for name in sorted(names):
        section, _, field = name.partition('.')
        values = [asdict(config)[section] for config in configs]
        told = [repr(value[field] if field else value) for value in values]
        rows.append([name, *(each if len(each) <= 40 else each[:37] + '...' for each in told)])
    return rows


def _aligned(rows: list[list[str]]) -> str:
    """Columns, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append('  '.join([row[0].ljust(widths[0]), *cells[1:]]))
    return '\n'.join(lines)
