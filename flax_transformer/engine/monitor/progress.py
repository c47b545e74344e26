"""How far training has come: sums since the last report, early stopping, spikes of the loss."""

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import InitVar, asdict, dataclass, field
from typing import Any

from flax_transformer.engine.clock import Clock
from flax_transformer.engine.config import LoopConfig


@dataclass
class MetricWindow:
    """Sums over the steps since the last report, and the time they took."""

    sums: dict[str, float] = field(default_factory=dict)
    steps: int = 0  # skipped ones do not count
    skipped: int = 0
    waited: float = 0.0  # seconds for data
    skipped_in_all: int = 0
    skipped_in_a_row: int = 0
    seconds: InitVar[float] = 0.0  # so far, without pauses

    def __post_init__(self, seconds: float) -> None:
        self._began = time.perf_counter() - seconds

    def state(self) -> dict[str, Any]:
        """What goes on in `MetricWindow(**state)`, for JSON; a copy, since a thread writes it later."""
        return asdict(self) | {'seconds': self._seconds()}

    def add(self, metrics: dict[str, float]) -> None:
        """Takes in the metrics of one step; a skipped one is only counted."""
        if metrics['skipped']:
            self.skipped += 1
            self.skipped_in_all += 1
            self.skipped_in_a_row += 1
            return
        self.skipped_in_a_row = 0
        self.steps += 1
        for name in metrics:
            self.sums[name] = self.sums.get(name, 0.0) + float(metrics[name])

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.waited += time.perf_counter() - began

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self._began += time.perf_counter() - began

    def _seconds(self) -> float:
        return max(time.perf_counter() - self._began, 1e-9)

    def close(self, task: Any) -> dict[str, float]:
        """A task's averages over the steps since the last call, without skipped ones; times in seconds."""
        seconds = self._seconds()
        sums = self.sums
        counts = task.counts
        metrics = task.summarize(sums)
        metrics |= {name: sums[name] / self.steps for name in (*counts, 'grad_norm') if name in sums}
        metrics |= {
            'skipped_steps': self.skipped,
            f'{counts[0]}_per_second': sums[counts[0]] / seconds,
            'seconds_per_step': seconds / (self.steps + self.skipped),
            'data_wait': self.waited / seconds,
        }
        self.sums = {}
        self.steps = 0
        self.skipped = 0
        self.waited = 0.0
        self._began = time.perf_counter()
        return metrics


def is_lower_better(score: str) -> bool:
    return score.endswith(('loss', 'perplexity', 'error_rate'))


def rank(value: float, score: str) -> float:
    """The value with its sign set so that higher is better; NaN is worst."""
    if math.isnan(value):
        return -math.inf
    return -value if is_lower_better(score) else value


def rank_of_checkpoint(metrics: dict[str, float], score: str) -> float:
    """`rank` of a checkpoint by its metrics; one without this score, or with damaged metrics, is worst."""
    value = metrics.get(f'validation_{score}') if isinstance(metrics, dict) else None
    return rank(value if isinstance(value, (int, float)) else math.nan, score)


def checkpoint_metrics(scores: dict[str, Any]) -> dict[str, float]:
    """The numbers of an evaluation, named as checkpoints keep them."""
    return {f'validation_{name}': value for name, value in scores.items() if isinstance(value, (int, float))}


class EarlyStopping:
    """The best evaluation so far and how many have come since; over after `patience` of them."""

    def __init__(self, score: str, patience: int, state: dict[str, Any] | None = None) -> None:
        """Continues from what `state` returned for the same score. With patience 0, is never over."""
        self.score = score
        self.patience = patience
        known = state if state and state['by'] == score else {}
        self.best: float | None = known.get('best')
        self.step: int = known.get('step', 0)
        self.since: int = known.get('since', 0)

    def state(self) -> dict[str, Any]:
        return {'by': self.score, 'best': self.best, 'step': self.step, 'since': self.since}

    def add(self, step: int, scores: dict[str, Any]) -> None:
        value = scores[self.score]
        is_better = self.best is None or rank(value, self.score) > rank(self.best, self.score)
        if is_better and not math.isnan(value):
            self.best = value
            self.step = step
            self.since = 0
        else:
            self.since += 1

    @property
    def is_over(self) -> bool:
        return 0 < self.patience <= self.since

    def __str__(self) -> str:
        best = 'was never a number' if self.best is None else f'was best at step {self.step} ({self.best:.4g})'
        return f'the validation {self.score} {best}, {self.since} evaluation{"s" * (self.since != 1)} ago'


WATCHED = ('loss', 'grad_norm')


@dataclass
class LossSpikes:
    """Exponential running means and variances over about `window` steps; plain means until then."""

    deviations: float  # standard deviations above the mean that make a step a spike; 0: none
    window: int
    steps: int = 0
    mean: dict[str, float] = field(default_factory=lambda: dict.fromkeys(WATCHED, 0.0))
    variance: dict[str, float] = field(default_factory=lambda: dict.fromkeys(WATCHED, 0.0))

    def state(self) -> dict[str, Any]:
        return {'steps': self.steps, 'mean': dict(self.mean), 'variance': dict(self.variance)}

    def add(self, values: dict[str, float]) -> dict[str, float]:
        """Adds a step's loss and, if it has one, grad_norm. Returns a spike's values, means and deviations, or {}.

        A value above the threshold counts as the threshold, so that one spike does not hide the next.
        """
        spike = {}
        rate = max(1.0 / self.window, 1.0 / (self.steps + 1))
        for name in [name for name in WATCHED if name in values]:  # a task that updates itself has no gradients
            value = values[name]
            mean = self.mean[name]
            deviation = math.sqrt(self.variance[name])
            if self.deviations and self.steps >= self.window:
                threshold = mean + self.deviations * deviation
                if value > threshold:
                    spike |= {name: value, f'{name}_mean': mean, f'{name}_deviation': deviation}
                    value = threshold
            difference = value - mean
            self.mean[name] = mean + rate * difference
            self.variance[name] = (1.0 - rate) * (self.variance[name] + rate * difference * difference)
        self.steps += 1
        return spike


def describe_spike(step: int, spike: dict[str, float]) -> str:
    parts = [
        f'{name} {spike[name]:.4g} is far above its running mean of {spike[f"{name}_mean"]:.4g} '
        f'(standard deviation {spike[f"{name}_deviation"]:.2g})'
        for name in WATCHED
        if name in spike
    ]
    return f'step {step}: {" and ".join(parts)}; its examples are in metrics.jsonl'


class Progress:
    """Metrics since the last report, the best evaluation, running means; and whether an evaluation was cut short.

    With training.minutes, also how much of them has passed.
    """

    def __init__(self, config: LoopConfig, saved: dict[str, Any] | None = None, *, step: int = 0) -> None:
        """Continues after `step` from what `to_json` returned, if given."""
        saved = saved or {}
        self.window = MetricWindow(**saved.get('window', {}))
        self.early_stopping = EarlyStopping(config.best_by, config.patience, saved.get('improvement'))
        self.spikes = LossSpikes(config.spike_deviations, config.smoothing_steps, **saved.get('spikes', {}))
        self.owes_evaluation = bool(saved.get('evaluate'))
        self.clock = Clock(config, saved.get('clock'), step) if config.minutes else None

    def to_json(self) -> dict[str, Any]:
        parts = {
            'window': self.window.state(),
            'improvement': self.early_stopping.state(),
            'spikes': self.spikes.state(),
        }
        if self.clock is not None:
            parts['clock'] = self.clock.state()
        return parts | ({'evaluate': True} if self.owes_evaluation else {})
