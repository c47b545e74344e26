"""Steps far above the running means: found, reported with their examples, and the same after a resume."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loop_doubles import CountingTrainer, Saved, run_loop

from flax_transformer.engine.monitor.progress import LossSpikes
from flax_transformer.engine.monitor.reporter import NoReporter, Reporter
from flax_transformer.engine.task import TrainState


def losses(count: int, **others: float) -> list[dict[str, float]]:
    noise = np.random.default_rng(0).normal(size=count)
    values = [{'loss': 4.0 + 0.1 * x, 'grad_norm': 1.0 - 0.05 * x} for x in noise]
    for step, value in others.items():
        values[int(step[1:])]['loss'] = value
    return values


def test_the_running_mean_and_variance_are_exponential_after_the_first_window() -> None:
    values, window = losses(60), 20
    spikes = LossSpikes(0.0, window)
    assert [spikes.add(value) for value in values] == [{}] * 60
    # The weights written out: the first 20 alike, each later one takes a twentieth from those before.
    weights = np.full(window, 1 / window)
    for _ in range(60 - window):
        weights = np.append(weights * (1 - 1 / window), 1 / window)
    xs = np.array([value['loss'] for value in values])
    mean = weights @ xs
    assert spikes.mean['loss'] == pytest.approx(mean)
    assert spikes.state()['variance']['loss'] == pytest.approx(weights @ (xs - mean) ** 2)


def test_a_spike_is_found_and_does_not_hide_the_next() -> None:
    values = losses(60, s40=5.5, s42=5.5, s50=4.3)
    spikes = LossSpikes(6.0, 20)
    found = {step: spike for step, value in enumerate(values) if (spike := spikes.add(value))}
    assert list(found) == [40, 42]
    assert set(found[40]) == {'loss', 'loss_mean', 'loss_deviation'}
    assert found[40]['loss'] == 5.5
    assert found[40]['loss_mean'] == pytest.approx(4.0, abs=0.1)
    assert 0.05 < found[40]['loss_deviation'] < 0.2
    none = LossSpikes(0.0, 20)
    assert not any(none.add(value) for value in values)


@pytest.mark.parametrize('at', [5, 20, 41])
def test_in_pieces_it_finds_the_same(at: int) -> None:
    values = losses(60, s40=5.5, s42=5.4, s55=math.e**2)
    whole, parts = LossSpikes(6.0, 20), LossSpikes(6.0, 20)
    expected = [whole.add(value) for value in values]
    found = [parts.add(value) for value in values[:at]]
    parts = LossSpikes(6.0, 20, **json.loads(json.dumps(parts.state())))
    assert found + [parts.add(value) for value in values[at:]] == expected
    assert parts.state() == whole.state()


class SpikingTrainer(CountingTrainer):
    def step(self, state: TrainState, batch: Any) -> tuple[TrainState, dict[str, Any]]:
        state, metrics = super().step(state, batch)
        high = {'loss': 50.0, 'grad_norm': 70.0} if state.step == 33 else {'loss': 2.0 + state.step % 3}
        return state, metrics | {'points': 2.0} | high


def test_a_spike_is_reported_with_the_examples_of_its_own_batch() -> None:
    found: list[Any] = []

    class Recorder(NoReporter):
        def spike(self, *args: Any) -> None:
            found.append(args)

    trainer = SpikingTrainer(steps=40, evaluate_every=100, checkpoint_every=100, smoothing_steps=20)
    run_loop(trainer, Saved(), reporter=Recorder())
    ((step, spike, examples),) = found
    assert (step, examples) == (33, {'batch': 32})  # batches count from 0
    assert (spike['loss'], spike['grad_norm']) == (25.0, 70.0)
    assert spike['loss_mean'] == pytest.approx(1.5, abs=0.1)


def test_a_record_and_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spike = {'loss': 9.0, 'loss_mean': 4.0, 'loss_deviation': 0.25}
    with Reporter(tmp_path, steps=10, first_step=0) as reporter:
        reporter.spike(7, spike, {'sentences': {'train': [3, 12]}})
    assert capsys.readouterr().err == (
        'step 7: loss 9 is far above its running mean of 4 (standard deviation 0.25); '
        'its examples are in metrics.jsonl\n'
    )
    record = json.loads((tmp_path / 'metrics.jsonl').read_text())
    assert record.pop('time')
    assert record == {'kind': 'spike', 'step': 7, **spike, 'sentences': {'train': [3, 12]}}
