"""What the training loop needs, without a model: a trainer whose steps take no time, batches that are numbers."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from flax_transformer.engine.batches import Data
from flax_transformer.engine.config import EngineConfig, LoopConfig, OptimizerConfig, ParallelConfig
from flax_transformer.engine.loop import Loop, Profiler
from flax_transformer.engine.monitor.progress import Progress
from flax_transformer.engine.monitor.reporter import NoReporter
from flax_transformer.engine.preemption import Stop
from flax_transformer.engine.task import Task, TrainState

# What is reported of a step.
TRAIN = {
    'loss': 2.0,
    'perplexity': 7.4,
    'target_tokens_per_second': 1234.0,
    'seconds_per_step': 1.0,
    'data_wait': 0.004,
}


class PointTask(Task):
    """Counts points, and knows their mean loss."""

    rows_per_step = 1
    counts = ('points',)

    def summarize(self, sums: dict[str, float]) -> dict[str, float]:
        return {'loss': sums['loss'] / sums['points']}


class CountingTrainer:
    """Steps that take no time; a signal asks to stop at one of them."""

    def __init__(self, stop: Stop | None = None, stop_at: int = 99, **training: Any) -> None:
        self.config = EngineConfig(OptimizerConfig(), LoopConfig(**training), ParallelConfig())
        self.task, self.stop, self.stop_at = PointTask(), stop or Stop(), stop_at
        self.learning_rate = lambda step: 0.0
        self.steps: list[int] = []  # those that the clock decided, in order

    def set_steps(self, steps: int) -> None:
        self.steps.append(steps)
        self.config = replace(self.config, training=replace(self.config.training, steps=steps))

    def step(self, state: TrainState, batch: Any) -> tuple[TrainState, dict[str, Any]]:
        if state.step + 1 == self.stop_at:
            self.stop.requested = 'SIGTERM'
        metrics = {'loss': 1.0, 'points': 1.0, 'grad_norm': 1.0, 'skipped': False}
        return state._replace(step=state.step + 1), metrics


class Numbers(Iterator[int]):
    """Batches: their own numbers, from 0."""

    def __init__(self, first: int = 0) -> None:
        self._next = first

    def __next__(self) -> int:
        self._next += 1
        return self._next - 1

    def get_state(self) -> int:
        return self._next


class Saved(dict[int, tuple[dict[str, float], Any, bool]]):
    """What a loop saved, by step: metrics, progress, and whether it said that this is the last."""

    def __call__(self, state: TrainState, metrics: dict[str, float], progress: Any, *, is_last: bool) -> None:
        assert 'evaluate' in self.get(state.step, ({}, {'evaluate': True}))[1], 'saved twice'
        self[state.step] = metrics, progress, is_last


class Places(Data):
    """What `Numbers` are of: eight are an epoch."""

    def __iter__(self) -> Numbers:
        return Numbers()

    def describe(self, position: int) -> dict[str, int]:
        return {'batch': position}

    def epoch(self, position: int) -> float:
        return position / 8


def run_loop(trainer: CountingTrainer, saved: Saved, *, first: int = 0, **settings: Any) -> TrainState:
    """The state after a loop from step `first` on, with the progress that was saved there."""
    progress = Progress(trainer.config.training, saved[first][1] if first else None)
    batches = settings.pop('batches', None) or Numbers(first)
    settings = {'reporter': NoReporter(), 'stop': trainer.stop, 'validate': None} | settings
    settings |= {
        'note_steps': lambda steps: None,
        'save': saved,
        'data': Places(),
        'profiler': Profiler(Path(), 0, 1, print),
    }
    return Loop(trainer, batches, progress, **settings).run(TrainState(first, None, None, None))
