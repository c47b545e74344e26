"""Training metrics since the last report."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from flax_transformer.engine.task import Task


class MetricWindow:
    """Sums over the steps since the last report, and the time they took."""

    def __init__(self, task: Task, state: dict[str, Any] | None = None) -> None:
        """Continues from what `state` returned, if given."""
        self._task = task
        self.skipped_in_all = self.skipped_in_a_row = 0
        self._reset()
        if state:
            self._sums, self.steps, self._skipped = dict(state['sums']), state['steps'], state['skipped']
            self._waited = state['waited']
            self._began -= state['seconds']
            self.skipped_in_all, self.skipped_in_a_row = state['skipped_in_all'], state['skipped_in_a_row']

    def _reset(self) -> None:
        self._sums: dict[str, float] = {}
        self.steps, self._skipped, self._waited, self._paused = 0, 0, 0.0, 0.0
        self._began = time.perf_counter()

    def state(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            'sums': dict(self._sums),  # JSON is written later, in a thread, while these go on changing
            'steps': self.steps,
            'skipped': self._skipped,
            'waited': self._waited,
            'seconds': self._seconds(),
            'skipped_in_all': self.skipped_in_all,
            'skipped_in_a_row': self.skipped_in_a_row,
        }

    def add(self, metrics: dict[str, float]) -> None:
        """Takes in the metrics of one step; a skipped one is only counted."""
        if metrics['skipped']:
            self._skipped += 1
            self.skipped_in_all += 1
            self.skipped_in_a_row += 1
            return
        self.skipped_in_a_row = 0
        self.steps += 1
        for name, value in metrics.items():
            self._sums[name] = self._sums.get(name, 0.0) + float(value)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Counts the time inside as waiting for data."""
        began = time.perf_counter()
        yield
        self._waited += time.perf_counter() - began

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Excludes the time inside, which is not training."""
        began = time.perf_counter()
        yield
        self._paused += time.perf_counter() - began

    def _seconds(self) -> float:
        return max(time.perf_counter() - self._began - self._paused, 1e-9)

    def close(self) -> dict[str, float]:
        """Averages over the steps since the last call, without skipped ones; times in seconds."""
        seconds, sums, steps, counts = self._seconds(), self._sums, self.steps, self._task.counts
        metrics = self._task.summarize(sums)
        metrics |= {name: sums[name] / steps for name in (*counts, 'grad_norm') if name in sums}
        metrics |= {
            'skipped_steps': self._skipped,
            f'{counts[0]}_per_second': sums[counts[0]] / seconds,
            'seconds_per_step': seconds / (steps + self._skipped),
            'data_wait': self._waited / seconds,
        }
        self._reset()
        return metrics
