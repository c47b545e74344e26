"""What a run reports: a progress bar, metrics.jsonl, TensorBoard."""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

from flax_transformer.common.files import read_limited
from flax_transformer.common.json_text import parse_json
from flax_transformer.common.quiet import is_quiet, shows_progress
from flax_transformer.engine.monitor.append_file import AppendFile, end_last_line
from flax_transformer.engine.monitor.loss_spikes import describe_spike
from flax_transformer.engine.monitor.tensorboard import TensorBoardFile

METRICS_FILE = 'metrics.jsonl'
_MOST_METRICS = 256 << 20  # bytes, some 600,000 records
DATA_WAIT_WARNING = 0.05  # share of the time
# Metrics in the progress line, and their names there; besides these, every rate.
SHOWN = {'loss': 'loss', 'loss_smoothed': 'smoothed', 'perplexity': 'perplexity', 'accuracy': 'accuracy'}


class Reporter:
    """Writes every record to metrics.jsonl and TensorBoard, and a summary to standard error.

    A terminal has a progress bar at the bottom; a log file gets a plain line per record. A full disk does not stop it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        steps: int,
        first_step: int,
        is_evaluated: bool = True,
        amounts: Mapping[str, float] | None = None,
        flops_per_step: float = 0.0,
        peak_flops: float | None = None,
    ) -> None:
        """Given a step's FLOPs and the devices' peak, reports utilization; `amounts` of a step become rates.

        Records of later steps than the first, which an earlier start reported and then lost, are removed; and of its
        evaluation unless it `is_evaluated`.
        """
        end_last_line(folder / METRICS_FILE)
        _remove_lost_records(folder / METRICS_FILE, first_step, is_evaluated)
        self._file = AppendFile(folder / METRICS_FILE, self.say)
        self._board = TensorBoardFile(folder / 'tensorboard', first_step=first_step, say=self.say)
        self._is_terminal = shows_progress()
        self._bar = tqdm(
            total=steps,
            initial=first_step,
            unit='step',
            disable=not self._is_terminal,
            smoothing=0.05,
            **_width(self._is_terminal),
        )
        self._waits = False  # whether the last report exceeded DATA_WAIT_WARNING
        self._started = time.perf_counter()
        self._steps, self._first_step = steps, first_step
        self._amounts, self._flops, self._peak = amounts or {}, flops_per_step, peak_flops

    def advance(self, step: int) -> None:
        """Moves the bar."""
        self._bar.update(step - self._bar.n)

    def train(self, step: int, metrics: dict[str, float]) -> None:
        """Reports the metrics of the steps since the last report."""
        seconds = metrics['seconds_per_step']
        metrics = metrics | {f'{name}_per_second': amount / seconds for name, amount in self._amounts.items()}
        if self._peak:
            metrics = metrics | {'matrix_peak': self._flops / seconds / self._peak}
        self._record('train', step, metrics)
        shown = {title: metrics[name] for name, title in SHOWN.items() if name in metrics}
        # target_tokens_per_second is shown as tokens/s.
        rates = {name.removesuffix('_per_second'): value for name, value in metrics.items() if 'per_second' in name}
        shown |= {f'{name.rpartition("_")[2]}/s': value for name, value in rates.items()}
        line = ' '.join(f'{title} {_short(value)}' for title, value in shown.items())
        if 'matrix_peak' in metrics:
            line += f' matrix peak {metrics["matrix_peak"]:.0%}'
        wait = metrics['data_wait']
        line += f' data wait {wait:.0%}'
        if wait > DATA_WAIT_WARNING and not self._waits:
            self.say(
                f'step {step}: {wait:.0%} of the time went into waiting for data; put it, or its cache, on a faster '
                'disk, or leave this run more of the CPU'
            )
        self._waits = wait > DATA_WAIT_WARNING
        if self._is_terminal:
            self._bar.set_postfix_str(line)
        else:
            elapsed = time.perf_counter() - self._started
            left = elapsed / max(step - self._first_step, 1) * (self._steps - step)
            self.say(f'step {step}/{self._steps} {line} elapsed {_clock(elapsed)} left {_clock(left)}')

    def evaluation(self, step: int, metrics: dict[str, Any]) -> None:
        """Reports the scores of an evaluation."""
        self._record('validation', step, metrics)
        numbers = {name: value for name, value in metrics.items() if not isinstance(value, str)}
        self.say(f'step {step} validation ' + ' '.join(f'{name} {_short(value)}' for name, value in numbers.items()))

    def spike(self, step: int, spike: dict[str, float], examples: dict[str, Any]) -> None:
        """Reports a step far above the running means, with a description of its examples."""
        self._record('spike', step, spike | examples)
        self.say(describe_spike(step, spike))

    def sample(self, step: int, number: int, **parts: str) -> None:
        """Shows an example and the model's output, such as a source, a reference and a translation."""
        for name, text in parts.items():
            self.say(f'  {name:<12} {text}')
        self._board.text(f'sample/{number}', '\n\n'.join(f'{name}: {text}' for name, text in parts.items()), step)

    def picture(self, step: int, name: str, png: bytes) -> None:
        """Shows a picture in TensorBoard."""
        self._board.picture(name, png, step)

    def say(self, text: str) -> None:
        """Prints a line above the progress bar."""
        if not is_quiet():
            tqdm.write(text, file=sys.stderr)

    def _record(self, kind: str, step: int, metrics: dict[str, Any]) -> None:
        record = {'kind': kind, 'step': step, 'time': round(time.time(), 3), **metrics}
        self._file.add(json.dumps(record).encode() + b'\n')
        for name, value in metrics.items():
            if isinstance(value, (int, float)):
                self._board.scalar(f'{kind}/{name}', value, step)

    def close(self) -> None:
        self._bar.close()
        self._file.close()
        self._board.close()

    def __enter__(self) -> 'Reporter':
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class NoReporter:
    """A Reporter that does nothing, for processes that leave reporting to the first."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> 'NoReporter':
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __getattr__(self, _: str) -> Callable[..., None]:
        return lambda *_, **__: None


def _width(is_terminal: bool) -> dict[str, Any]:
    """tqdm's arguments for a bar as wide as the terminal; some terminals report a width of 0, which hides it."""
    if is_terminal and not os.get_terminal_size(sys.stderr.fileno()).columns:
        return {'ncols': 100}
    return {'dynamic_ncols': True}


def _remove_lost_records(file: Path, step: int, is_evaluated: bool) -> None:
    """Cuts off the last records as long as they are of what follows the step; they are in that order."""
    is_lost = lambda kind, of: of > step or (kind, of, is_evaluated) == ('validation', step, False)
    lines = read_limited(file, _MOST_METRICS).splitlines(keepends=True) if file.exists() else []
    kept = len(lines)
    while kept and ((record := _parsed(lines[kept - 1])) is None or is_lost(*record[:2])):
        kept -= 1
    if kept < len(lines):
        os.truncate(file, sum(map(len, lines[:kept])))


def _parsed(line: bytes) -> tuple[str, int, dict[str, Any]] | None:
    """Kind, step and content of a record; None if it is damaged, as when the process was killed."""
    try:
        record = parse_json(line)
        kind, step = record['kind'], record['step']
    except (ValueError, TypeError, KeyError):
        return None
    return (kind, step, record) if type(kind) is str and type(step) is int and 0 <= step < 2**63 else None


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The records of a run by step; of one reported twice, before and after a resume, the later."""
    lines = map(_parsed, read_limited(folder / METRICS_FILE, _MOST_METRICS).splitlines())
    records = {record[:2]: record[2] for record in lines if record}
    return sorted(records.values(), key=lambda record: record['step'])


def _short(value: float) -> str:
    return f'{value:,.0f}' if abs(value) >= 1000 else f'{value:.4g}'


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f'{hours}:{minutes:02}:{seconds:02}' if hours else f'{minutes}:{seconds:02}'
