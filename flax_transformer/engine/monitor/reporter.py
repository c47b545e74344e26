"""What a run reports: a progress bar, metrics.jsonl, TensorBoard, other trackers."""

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flax_transformer.common.files import open_regular, read_limited
from flax_transformer.common.json_text import parse_json
from flax_transformer.common.quiet import say

from .progress import describe_spike
from .progress_bar import ProgressBar, TimeLeft, columns, is_terminal
from .trackers import AppendFile, TensorBoardFile, Tracker, ending

METRICS_FILE = 'metrics.jsonl'
_MOST_METRICS = 256 << 20  # bytes, some 600,000 records
_LAST = 32 << 20  # bytes read back at a start, to find records of steps that were lost
DATA_WAIT_WARNING = 0.05  # fraction of the time
# Metrics in the line of a report, and their names there; besides these, every rate.
SHOWN = {'loss': 'loss', 'loss_smoothed': 'smoothed', 'perplexity': 'perplexity', 'accuracy': 'accuracy'}
FIRST_LEFT_OUT = ('data wait', 'slots/s', 'smoothed', 'perplexity')  # dropped in this order on narrow terminals


class Reporter:
    """Writes every record to metrics.jsonl and TensorBoard, and a summary to standard error; survives a full disk."""

    def __init__(
        self,
        folder: Path,
        *,
        steps: int,
        first_step: int,
        is_evaluated: bool = True,
        reads_data: bool = True,
        report_to: str = 'none',
        amounts: Mapping[str, float] | None = None,
        flops_per_step: float = 0.0,
        peak_flops: float | None = None,
    ) -> None:
        """Given a step's FLOPs and the devices' peak, reports utilization; `amounts` of a step become rates.

        Removes records of steps that an earlier start reported and then lost, and of the first step's evaluation unless
        it `is_evaluated`. `reads_data`: examples are read, not made.
        """
        _remove_lost_records(folder / METRICS_FILE, first_step, is_evaluated)
        self._file = AppendFile(folder / METRICS_FILE, self.say)
        self._board = TensorBoardFile(folder / 'tensorboard', first_step=first_step, say=self.say)
        self._tracker = Tracker(report_to, folder, self.say)
        self._remedy = 'put it, or its cache, on a faster disk, or ' if reads_data else ''
        self._waits = False  # whether the last report exceeded DATA_WAIT_WARNING
        self._started = time.perf_counter()
        self._steps = steps
        self._step = first_step
        self._amounts = amounts or {}
        self._flops = flops_per_step
        self._peak = peak_flops
        self._time_left = TimeLeft(steps, first_step)
        self._bar = ProgressBar(steps, first_step)
        self._figures: list[str] = []

    def advance(self, step: int) -> None:
        was_phase = self._time_left.phase
        self._time_left.advance(step)
        self._step = step
        self._show(now=bool(was_phase))

    def set_steps(self, steps: int) -> None:
        self._steps = steps
        self._time_left.steps = steps
        self._bar.set_steps(steps)

    def phase(self, name: str) -> None:
        self._time_left.phase = name
        self._show(now=True)

    def _show(self, *, now: bool = False) -> None:
        left = self._time_left()
        phase = self._time_left.phase
        parts = [phase] if phase else []
        if left is not None:
            parts.append(f'{_clock(left)} left')
        if not phase:
            parts += self._figures
        self._bar.show(self._step, parts, now=now)

    def train(self, step: int, metrics: dict[str, float]) -> None:
        seconds = metrics['seconds_per_step']
        metrics = metrics | {f'{name}_per_second': amount / seconds for name, amount in self._amounts.items()}
        if self._peak and self._flops:
            metrics['matrix_peak'] = self._flops / seconds / self._peak
        self._record('train', step, metrics)
        wait = metrics['data_wait']
        if wait > DATA_WAIT_WARNING and not self._waits:
            self.say(
                f'step {step}: {wait:.0%} of the time went into waiting for data; {self._remedy}leave this run more '
                'of the CPU'
            )
        self._waits = wait > DATA_WAIT_WARNING
        begin = f'step {step}/{self._steps}'
        shown = _shown(metrics)

        if is_terminal():
            longest = f'step {self._steps}/{self._steps}'
            self.say(_line(begin, _fitting(longest, shown, columns() - 1)))
            names = ('epoch', *(name for name in shown if name.endswith('/s') and name != 'slots/s'), 'loss')
            self._figures = [_figure(name, shown[name]) for name in names if name in shown]
            self._show(now=True)
        else:
            elapsed = time.perf_counter() - self._started
            left = self._time_left()
            end = '' if left is None else f' left {_clock(left)}'
            self.say(f'{_line(begin, shown)} elapsed {_clock(elapsed)}{end}')

    def evaluation(self, step: int, metrics: dict[str, Any], *, seconds: float) -> None:
        self._record('validation', step, metrics | {'seconds': seconds})
        numbers = {name: value for name, value in metrics.items() if not isinstance(value, str)}
        self.say(f'step {step} validation ' + ' '.join(f'{name} {_short(value)}' for name, value in numbers.items()))

    def spike(self, step: int, spike: dict[str, float], examples: dict[str, Any]) -> None:
        self._record('spike', step, spike | examples)
        self.say(describe_spike(step, spike))

    def sample(self, step: int, number: int, **parts: str) -> None:
        """Shows an example and the model's output, on a terminal in a line each: some repeat themselves endlessly."""
        for name, text in parts.items():
            line = f'  {name:<12} {text}'
            is_cut = is_terminal() and len(line) > (width := columns() - 1)
            self.say(f'{line[: width - 1]}…' if is_cut else line)
        self._board.text(f'sample/{number}', '\n\n'.join(f'{name}: {text}' for name, text in parts.items()), step)

    def picture(self, step: int, name: str, png: bytes) -> None:
        self._board.picture(name, png, step)

    say = staticmethod(say)  # prints a line above the progress bar

    def _record(self, kind: str, step: int, metrics: dict[str, Any]) -> None:
        record = {'kind': kind, 'step': step, 'time': round(time.time(), 3), **metrics}
        self._file.write(json.dumps(record).encode() + b'\n')
        values = {f'{kind}/{name}': value for name, value in metrics.items() if isinstance(value, (int, float))}
        for name, value in values.items():
            self._board.scalar(name, value, step)
        self._tracker.scalars(values, step)

    def __enter__(self) -> 'Reporter':
        self._show(now=True)
        return self

    def __exit__(self, kind: object, error: BaseException | None, where: object) -> None:
        self._bar.close()
        self._file.close()
        self._board.close()
        self._tracker.close(ending(error))


class NoReporter:
    """A Reporter that does nothing, for processes that leave reporting to the first."""

    def __enter__(self) -> 'NoReporter':
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __getattr__(self, _: str) -> Callable[..., None]:
        return lambda *_, **__: None


def _shown(metrics: Mapping[str, float]) -> dict[str, str]:
    shown = {}
    if 'epoch' in metrics:
        shown['epoch'] = f'{metrics["epoch"]:.{2 if metrics["epoch"] < 1 else 1}f}'
    shown |= {title: _short(metrics[name]) for name, title in SHOWN.items() if name in metrics}
    for name, value in metrics.items():
        if name.endswith('_per_second'):  # target_tokens_per_second is shown as tokens/s
            shown[f'{name.removesuffix("_per_second").rpartition("_")[2]}/s'] = _short(value)
    if 'matrix_peak' in metrics:
        shown['matrix peak'] = f'{metrics["matrix_peak"]:.0%}'
    return shown | {'data wait': f'{metrics["data_wait"]:.0%}'}


def _figure(name: str, value: str) -> str:
    return f'{value} {name}' if name.endswith('/s') else f'{name} {value}'


def _fitting(begin: str, shown: Mapping[str, str], width: int) -> Mapping[str, str]:
    """The metrics without as many of FIRST_LEFT_OUT as it takes for the line to fit into `width` columns."""
    kept = dict(shown)
    for name in FIRST_LEFT_OUT:
        # A value counts as at least six columns, so that every line shows the same.
        if len(begin) + sum(len(title) + 2 + max(len(value), 6) for title, value in kept.items()) <= width:
            break
        kept.pop(name, None)
    return kept


def _line(begin: str, shown: Mapping[str, str]) -> str:
    return ' '.join([begin, *(f'{name} {value}' for name, value in shown.items())])


def _remove_lost_records(file: Path, step: int, is_evaluated: bool) -> None:
    """Cuts records of later steps, and what a killed process left of one, off the end of the file."""
    if not file.exists():
        return
    size = file.stat().st_size
    with open_regular(file) as opened:
        opened.seek(max(0, size - _LAST))
        if opened.tell():
            opened.readline()  # only its end was read
        lines = opened.read().splitlines(keepends=True)
    while lines:
        record = _parsed(lines[-1])
        if record and lines[-1].endswith(b'\n'):
            kind, at, _ = record
            if at < step or (at == step and (is_evaluated or kind != 'validation')):
                break
        size -= len(lines.pop())
    if size < file.stat().st_size:
        os.truncate(file, size)


def _parsed(line: bytes) -> tuple[str, int, dict[str, Any]] | None:
    try:
        record = parse_json(line)
        kind = record['kind']
        step = record['step']
    except (ValueError, TypeError, KeyError):
        return None
    if type(kind) is not str or type(step) is not int or not 0 <= step < 2**63:
        return None
    return kind, step, record


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The records of a run by step; of a record reported again after a resume, the later one."""
    lines = map(_parsed, read_limited(folder / METRICS_FILE, _MOST_METRICS).splitlines())
    records = {record[:2]: record[2] for record in lines if record}
    return sorted(records.values(), key=lambda record: record['step'])


def _short(value: float) -> str:
    return f'{value:,.0f}' if abs(value) >= 1000 else f'{value:.4g}'


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f'{hours}:{minutes:02}:{seconds:02}' if hours else f'{minutes}:{seconds:02}'
