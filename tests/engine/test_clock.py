"""Training that lasts training.minutes, by a clock that only steps and evaluations move."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from loop_doubles import CountingTrainer, Numbers, Saved, run_loop
from toy_runs import CircleRun, make_trainer, train_circle
from toy_task import CircleConfig

from flax_transformer.engine import clock, loop
from flax_transformer.engine.clock import Clock
from flax_transformer.engine.config import LoopConfig
from flax_transformer.engine.devices import multihost
from flax_transformer.engine.runs.finished import steps_of
from flax_transformer.engine.task import TrainState
from flax_transformer.engine.trainer import Trainer


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time, which stands still unless `seconds` are added."""
    time = SimpleNamespace(seconds=100.0)
    for module in (clock, loop):
        monkeypatch.setattr(module, 'time', SimpleNamespace(perf_counter=lambda: time.seconds))
    return time


class SlowTrainer(CountingTrainer):
    def __init__(self, now: SimpleNamespace, pace: Callable[[int], float], **training: Any) -> None:
        super().__init__(stop_at=10**9, **training)
        self.now, self.pace = now, pace

    def step(self, state: TrainState, batch: Any) -> tuple[TrainState, dict[str, Any]]:
        self.now.seconds += self.pace(int(state.step) + 1)
        return super().step(state, batch)


PACES = {
    'steady': lambda step: 0.5,
    'busier': lambda step: 0.5 if step < 200 else 2.0,
    'quieter': lambda step: 2.0 if step < 50 else 0.5,
    'uneven': lambda step: 0.2 + step % 3,
    'long steps': lambda step: 25.0,
}


@pytest.mark.parametrize('planned', [3, 360, 100_000])
@pytest.mark.parametrize('pace', PACES.values(), ids=PACES)
def test_minutes_are_kept_whatever_the_machine_does(
    pace: Callable[[int], float], planned: int, now: SimpleNamespace
) -> None:
    """Compiling, in the first step, is not part of them; evaluations are."""

    def validate(state: TrainState) -> dict[str, float]:
        now.seconds += 4
        return {'loss': 1.0}

    trainer = SlowTrainer(now, pace, minutes=3.0, steps=planned, log_every=99, evaluate_every=50, checkpoint_every=99)
    state = run_loop(trainer, Saved(), validate=validate)
    longest = max(pace(state.step), 3.6)  # a step, or the tolerance
    assert abs(now.seconds - 100 - pace(1) - 180) < longest + 0.1
    assert trainer.config.training.steps == state.step


class Lengths(Numbers):
    """Every fourth batch is longer than the others."""

    def __next__(self) -> np.ndarray:
        return np.zeros(2 if super().__next__() % 4 == 2 else 1)


def test_compiling_for_batches_of_another_length_is_not_part_of_the_minutes(now: SimpleNamespace) -> None:
    trainer = SlowTrainer(now, lambda step: 60.5 if step in (1, 3) else 0.5, minutes=1.0, steps=1600)
    assert 118 <= run_loop(trainer, Saved(), batches=Lengths()).step <= 122


def test_no_more_than_the_most_steps_are_done_and_little_is_said(now: SimpleNamespace, capsys) -> None:
    often = {'log_every': 9, 'evaluate_every': 99, 'checkpoint_every': 99}
    run_loop(SlowTrainer(now, PACES['steady'], minutes=3.0, steps=360, **often), Saved())
    assert not capsys.readouterr().err
    capped = SlowTrainer(now, PACES['steady'], minutes=30.0, steps=360, max_steps=400, **often)
    assert run_loop(capped, Saved()).step == 400
    assert '400 steps fit training.minutes' in capsys.readouterr().err
    busier = SlowTrainer(now, PACES['busier'], minutes=3.0, steps=360, **often)
    assert 230 < run_loop(busier, Saved()).step < 242
    assert capsys.readouterr().err.count('\n') == 1


def test_other_limits_are_followed_and_only_time_by_the_clock_has_passed(now: SimpleNamespace) -> None:
    config = LoopConfig(minutes=1.0, steps=20, max_steps=20)
    capped = Clock(config, None, 0)
    capped.begin(1)
    now.seconds += 19
    saved = capped.state()
    assert Clock(config, saved, 20).steps == 20
    raised = Clock(replace(config, steps=22, max_steps=90), saved, 20)
    by_steps = Clock(replace(config, steps=22, max_steps=0), None, 20)
    for resumed in (raised, by_steps):
        resumed.begin(21)
    now.seconds += 1
    for resumed in (raised, by_steps):
        resumed.look(22)
    assert (raised.steps, by_steps.steps) == (62, 81)


def test_the_processes_do_the_steps_that_the_first_decides(monkeypatch: pytest.MonkeyPatch, now) -> None:
    sent: dict[str, str] = {}
    first, other = (Clock(LoopConfig(minutes=1.0, steps=40), None, 0) for _ in range(2))
    for step in range(1, 30):
        if step == 1:
            first.begin(1)
            other.begin(1)
        now.seconds += 3
        monkeypatch.setattr(multihost, 'is_first', lambda: True)
        monkeypatch.setattr(multihost, 'broadcast', sent.setdefault)
        first.look(step)
        monkeypatch.setattr(multihost, 'is_first', lambda: False)
        monkeypatch.setattr(multihost, 'broadcast', lambda name, _: sent[name])
        other.look(step)
        assert first.steps == other.steps
    assert first.steps < 25


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_bit_with_the_steps_it_had_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: SimpleNamespace
) -> None:
    """The rate falls in a line to the last step, so that another end would show; config.json may know another one."""
    step_of = Trainer.step
    killed_at = 0
    after: dict[int, Any] = {}  # the parameters, by step

    def step(self: Trainer, state: TrainState, batch: Any) -> Any:
        number = int(state.step) + 1
        if number == killed_at:
            raise MemoryError
        now.seconds += 1.0 if number < 20 else 3.0
        state, sums = step_of(self, state, batch)
        after[number] = jax.device_get(state.params)
        return state, sums

    monkeypatch.setattr(Trainer, 'step', step)
    config = CircleConfig()
    optimizer = replace(config.optimizer, schedule='linear', warmup_steps=10**6)
    training = replace(config.training, minutes=1.0, steps=100, checkpoint_every=10)
    config = replace(config, optimizer=optimizer, training=training)
    run = train_circle(tmp_path / 'whole', config)
    whole = dict(after)
    assert run.read_config().training.steps == steps_of(run.checkpoints)[-1] == len(whole)
    assert len(whole) in (32, 33, 34)
    assert make_trainer(run.read_config()).learning_rate(3) == optimizer.learning_rate  # warm-up takes a tenth

    killed_at = 29
    with pytest.raises(MemoryError):
        train_circle(tmp_path / 'cut', config)
    killed_at = 0
    cut = CircleRun(tmp_path / 'cut')
    last = steps_of(cut.checkpoints)[-1]
    assert last % 10  # what was decided is saved at once
    cut.write_config(replace(cut.read_config(), training=replace(training, steps=200)))
    after.clear()
    train_circle(cut.path, config)
    assert min(after) == last + 1
    jax.tree.map(np.testing.assert_array_equal, after[last + 1], whole[last + 1])
    assert steps_of(cut.checkpoints)[-1] in (33, 34, 35)  # the first step of each start is not counted
