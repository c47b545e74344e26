"""What a run tells while it goes: a progress bar, metrics.jsonl, TensorBoard."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from tqdm import tqdm

METRICS_FILE = 'metrics.jsonl'
MUCH_WAITING = 0.05  # of the time, for data: from here on it is said


class Reporter:
    """Writes every record to metrics.jsonl and TensorBoard, and what a person wants to see to the terminal.

    In a terminal there is a bar at the bottom; in a log file a plain line per record.
    """

    def __init__(self, folder: Path, *, steps: int, first_step: int) -> None:
        from tensorboardX import SummaryWriter

        self._file = _append_lines(folder / METRICS_FILE)
        self._board = SummaryWriter(
            str(folder / 'tensorboard'), purge_step=first_step + 1 if first_step else None, write_to_disk=True
        )
        self._is_terminal = sys.stderr.isatty()
        self._bar = tqdm(
            total=steps,
            initial=first_step,
            unit='step',
            disable=not self._is_terminal,
            dynamic_ncols=True,
            smoothing=0.05,
        )
        self._waits = False  # whether the last report found much waiting
        self._started = time.perf_counter()
        self._steps, self._first_step = steps, first_step

    def advance(self, step: int) -> None:
        """Moves the bar."""
        self._bar.update(step - self._bar.n)

    def train(self, step: int, metrics: dict[str, float]) -> None:
        """Reports metrics of the steps since the last report."""
        self._record('train', step, metrics)
        line = ' '.join(
            f'{name} {_short(metrics[name])}' for name in ('loss', 'perplexity', 'target_tokens_per_second')
        )
        wait = metrics['data_wait']
        line = line.replace('target_tokens_per_second', 'tokens/s') + f' data wait {wait:.0%}'
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

    def say(self, text: str) -> None:
        """A line for the person who watches."""
        tqdm.write(text, file=sys.stderr)

    def _record(self, kind: str, step: int, metrics: dict[str, Any]) -> None:
        record = {'kind': kind, 'step': step, 'time': round(time.time(), 3), **metrics}
        self._file.write(json.dumps(record) + '\n')
        self._file.flush()
        for name, value in metrics.items():
            if not isinstance(value, str):
                self._board.add_scalar(f'{kind}/{name}', value, step)

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


def _append_lines(file: Path) -> IO[str]:
    """The file, open behind its last whole line: a kill may have cut one short."""
    opened = file.open('a+b')
    size = opened.tell()
    if size:
        opened.seek(size - 1)
        if opened.read(1) != b'\n':
            opened.write(b'\n')
    opened.close()
    return file.open('a', encoding='utf-8')


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
