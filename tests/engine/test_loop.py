"""The loop around the step: in what order it dispatches, reads, evaluates and saves."""

from typing import Any

from loop_doubles import CountingTrainer, Saved, run_loop

from flax_transformer.engine.state import TrainState


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
