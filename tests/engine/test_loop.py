"""The loop around the step: in what order it dispatches, reads, evaluates and saves."""

import time
from typing import Any

import pytest
from loop_doubles import CountingTrainer, Saved, run_loop

from flax_transformer.common.errors import Interrupted
from flax_transformer.engine.monitor.reporter import NoReporter
from flax_transformer.engine.preemption import Stop
from flax_transformer.engine.task import TrainState


class RecordedMetric:
    """A number that notes when it is read."""

    def __init__(self, events: list[str], step: int) -> None:
        self.events, self.step = events, step

    def __float__(self) -> float:
        self.events.append(f'read {self.step}')
        return 1.0


class RecordedTrainer(CountingTrainer):
    def __init__(self, **training: Any) -> None:
        super().__init__(**training)
        self.events: list[str] = []

    def step(self, state: TrainState, batch: Any) -> tuple[TrainState, dict[str, Any]]:
        state, metrics = super().step(state, batch)
        self.events.append(f'dispatch {state.step}')
        return state, metrics | {'loss': RecordedMetric(self.events, state.step)}


def test_metrics_are_read_one_step_late() -> None:
    trainer = RecordedTrainer(steps=4, log_every=4, evaluate_every=4, checkpoint_every=4)
    saved = Saved()
    run_loop(trainer, saved, validate=lambda state: {'loss': 2.0})
    assert trainer.events == [
        'dispatch 1',
        'dispatch 2',
        'read 1',
        'dispatch 3',
        'read 2',
        'dispatch 4',
        'read 3',
        'read 4',
    ]
    assert {step: (metrics, is_last) for step, (metrics, _, is_last) in saved.items()} == {
        4: ({'validation_loss': 2.0}, True)
    }


class RecordingReporter(NoReporter):
    def __init__(self) -> None:
        self.phases: list[str] = []
        self.records: dict[int, dict[str, float]] = {}

    def advance(self, step: int) -> None:
        self.phases.append(f'step {step}')

    def phase(self, name: str) -> None:
        self.phases.append(name)

    def train(self, step: int, metrics: dict[str, float]) -> None:
        self.records[step] = metrics


class CompilingTrainer(CountingTrainer):
    def step(self, state: TrainState, batch: Any) -> tuple[TrainState, dict[str, Any]]:
        if state.step == 0:
            time.sleep(0.3)
        return super().step(state, batch)


def test_what_is_not_training_is_named_and_compiling_takes_no_time_from_it() -> None:
    reporter = RecordingReporter()
    trainer = CompilingTrainer(steps=4, log_every=2, evaluate_every=2, checkpoint_every=4)
    run_loop(trainer, Saved(), reporter=reporter, validate=lambda state: {'loss': 2.0})
    assert reporter.phases == [
        'compiling',
        'step 1',
        'step 2',
        'evaluating',
        'step 3',
        'step 4',
        'evaluating',
        'saving',
    ]
    assert reporter.records[2]['seconds_per_step'] < 0.1  # two steps took 0.3 s


def test_an_evaluation_that_was_owed_comes_before_compiling() -> None:
    saved, reporter, stop = Saved(), RecordingReporter(), Stop()
    trainer = CompilingTrainer(stop, stop_at=2, steps=3, log_every=1, evaluate_every=2, checkpoint_every=2)
    with pytest.raises(Interrupted):
        run_loop(trainer, saved, validate=lambda state: {'loss': 2.0})
    trainer = CompilingTrainer(steps=3, log_every=1, evaluate_every=2, checkpoint_every=2)
    run_loop(trainer, saved, first=2, reporter=reporter, validate=lambda state: {'loss': 2.0})
    assert reporter.phases[:4] == ['evaluating', 'saving', 'compiling', 'step 3']


def test_the_epoch_is_that_of_the_place_after_a_step_also_after_resuming() -> None:
    """Numbers count the batches; an epoch has eight. The reports after a stop are those of an unbroken run."""
    found = []
    for stops in ([], [3, 5]):
        saved, reporter, first = Saved(), RecordingReporter(), 0
        for end in (*stops, 8):
            trainer = CountingTrainer(steps=end, log_every=2, evaluate_every=99, checkpoint_every=99)
            run_loop(trainer, saved, first=first, reporter=reporter)
            first = end
        found.append({step: metrics['epoch'] for step, metrics in reporter.records.items() if step % 2 == 0})
    assert found[0] == found[1] == {2: 0.25, 4: 0.5, 6: 0.75, 8: 1.0}
