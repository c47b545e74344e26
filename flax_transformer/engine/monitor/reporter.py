"""What a run tells while it goes: a progress bar, metrics.jsonl, TensorBoard."""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tqdm import tqdm

from flax_transformer.engine.monitor.append_file import WholeWrites, end_last_line
from flax_transformer.engine.monitor.loss_spikes import told
from flax_transformer.engine.monitor.tensorboard import Board

METRICS_FILE = 'metrics.jsonl'
MUCH_WAITING = 0.05  # of the time, for data: from here on it is said
# What the progress line shows, where it is known, and what it is called there.
SHOWN = {
    'loss': 'loss',
    'loss_smoothed': 'smoothed',
    'perplexity': 'perplexity',
    'target_tokens_per_second': 'tokens/s',
    'target_slots_per_second': 'slots/s',
}


class Reporter:
    """Writes every record to metrics.jsonl and TensorBoard, and what a person wants to see to the terminal.

    In a terminal there is a bar at the bottom; in a log file a plain line per record. A full disk stops neither.
    """

    def __init__(
        self,
        folder: Path,
        *,
        steps: int,
        first_step: int,
        slots_per_step: int = 0,
        flops_per_step: float = 0.0,
        peak_flops: float | None = None,
    ) -> None:
        """With what a step takes, and what the devices together can do at the most, says how much of it is used."""
        end_last_line(folder / METRICS_FILE)
        self._file = WholeWrites(folder / METRICS_FILE, self.say)
        self._board = Board(folder / 'tensorboard', first_step=first_step, say=self.say)
        self._is_terminal = sys.stderr.isatty()
        self._bar = tqdm(
            total=steps,
            initial=first_step,
            unit='step',
            disable=not self._is_terminal,
            smoothing=0.05,
            **_width(self._is_terminal),
        )
        self._waits = False  # whether the last report found much waiting
        self._started = time.perf_counter()
        self._steps, self._first_step = steps, first_step
        self._slots, self._flops, self._peak = slots_per_step, flops_per_step, peak_flops

    def advance(self, step: int) -> None:
        """Moves the bar."""
        self._bar.update(step - self._bar.n)

    def train(self, step: int, metrics: dict[str, float]) -> None:
        """Reports metrics of the steps since the last report."""
        if self._slots:
            metrics = metrics | {'target_slots_per_second': self._slots / metrics['seconds_per_step']}
        if self._peak:
            metrics = metrics | {'matrix_peak': self._flops / metrics['seconds_per_step'] / self._peak}
        self._record('train', step, metrics)
        line = ' '.join(f'{title} {_short(metrics[name])}' for name, title in SHOWN.items() if name in metrics)
        if 'matrix_peak' in metrics:
            line += f' matrix peak {metrics["matrix_peak"]:.0%}'
        wait = metrics['data_wait']
        line += f' data wait {wait:.0%}'
        if wait > MUCH_WAITING and not self._waits:
            self.say(
                f'step {step}: {wait:.0%} of the time went into waiting for data; put data.cache on a faster disk, or '
                'leave more of the processor to this run'
            )
        self._waits = wait > MUCH_WAITING
        if self._is_terminal:
            self._bar.set_postfix_str(line)
        else:
            elapsed = time.perf_counter() - self._started
            left = elapsed / max(step - self._first_step, 1) * (self._steps - step)
            self.say(f'step {step}/{self._steps} {line} elapsed {_clock(elapsed)} left {_clock(left)}')

    def evaluation(self, step: int, metrics: dict[str, Any]) -> None:
        """Reports metrics of the validation set."""
        self._record('validation', step, metrics)
        numbers = {name: value for name, value in metrics.items() if not isinstance(value, str)}
        self.say(f'step {step} validation ' + ' '.join(f'{name} {_short(value)}' for name, value in numbers.items()))

    def spike(self, step: int, spike: dict[str, float], sentences: Any) -> None:
        """Reports a step far above the running means, with the sentences of its batch."""
        self._record('spike', step, spike | {'sentences': sentences})
        self.say(told(step, spike))

    def sample(self, step: int, number: int, source: str, reference: str, translation: str) -> None:
        """Shows a translation of a validation sentence."""
        parts = {'source': source, 'reference': reference, 'translation': translation}
        for name, text in parts.items():
            self.say(f'  {name:<12} {text}')
        self._board.text(f'sample/{number}', '\n\n'.join(f'{name}: {text}' for name, text in parts.items()), step)

    def picture(self, step: int, name: str, png: bytes) -> None:
        """Shows a picture, in TensorBoard alone."""
        self._board.picture(name, png, step)

    def say(self, text: str) -> None:
        """A line for the person who watches."""
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
    """That of a process which leaves reporting to another: it takes all that a Reporter takes, and does nothing."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> 'NoReporter':
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __getattr__(self, _: str) -> Callable[..., None]:
        return lambda *args: None


def _width(is_terminal: bool) -> dict[str, Any]:
    """tqdm's arguments: as wide as the terminal; one that says it has no width at all would get an empty bar."""
    if is_terminal and not os.get_terminal_size(sys.stderr.fileno()).columns:
        return {'ncols': 100}
    return {'dynamic_ncols': True}


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The records of a run, oldest first; of a step that was reported twice, before and after a resume, the last."""
    records: dict[tuple[str, int], dict[str, Any]] = {}
    for line in (folder / METRICS_FILE).read_text(encoding='utf-8').splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue  # cut short by a kill
        records[record['kind'], record['step']] = record
    return sorted(records.values(), key=lambda record: record['step'])


def _short(value: float) -> str:
    return f'{value:,.0f}' if abs(value) >= 1000 else f'{value:.4g}'


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f'{hours}:{minutes:02}:{seconds:02}' if hours else f'{minutes}:{seconds:02}'
