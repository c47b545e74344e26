"""Steps far above the running means: found, reported with their examples, and the same after a resume."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import copy_config
from loop_doubles import CountingTrainer, Saved, SilentReporter, run_loop

from flax_transformer.config import Config, CorpusConfig, DataConfig
from flax_transformer.data.bitext.batches import PackedBatches
from flax_transformer.engine.monitor.loss_spikes import LossSpikes
from flax_transformer.engine.monitor.reporter import Reporter
from flax_transformer.engine.state import TrainState
from flax_transformer.tasks.translation.preparation import prepare
from flax_transformer.tasks.translation.training_data import TrainingData


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
    values = losses(60, s3=99.0, s40=5.5, s42=5.5, s50=4.3)
    spikes = LossSpikes(6.0, 20)
    found = {step: spike for step, value in enumerate(values) if (spike := spikes.add(value))}
    # That of step 3 comes before anything is known, and makes the deviation large: it fades slowly.
    assert 3 not in found
    spikes = LossSpikes(6.0, 20)
    found = {
        step: spike for step, value in enumerate(losses(60, s40=5.5, s42=5.5, s50=4.3)) if (spike := spikes.add(value))
    }
    assert list(found) == [40, 42]
    assert set(found[40]) == {'loss', 'loss_mean', 'loss_deviation'}
    assert found[40]['loss'] == 5.5
    assert found[40]['loss_mean'] == pytest.approx(4.0, abs=0.1)
    assert 0.05 < found[40]['loss_deviation'] < 0.2
    none = LossSpikes(0.0, 20)
    assert not any(none.add(value) for value in values)


@pytest.mark.parametrize('at', [5, 19, 20, 41])
def test_in_pieces_it_finds_the_same(at: int) -> None:
    values = losses(60, s40=5.5, s42=5.4, s55=math.e**2)
    whole, parts = LossSpikes(6.0, 20), LossSpikes(6.0, 20)
    expected = [whole.add(value) for value in values]
    found = [parts.add(value) for value in values[:at]]
    parts = LossSpikes(6.0, 20, json.loads(json.dumps(parts.state())))
    assert found + [parts.add(value) for value in values[at:]] == expected
    assert parts.state() == whole.state()


class SpikingTrainer(CountingTrainer):
    def step(self, state: TrainState, batch: Any) -> tuple[TrainState, dict[str, Any]]:
        state, metrics = super().step(state, batch)
        high = {'loss': 50.0, 'grad_norm': 70.0} if state.step == 33 else {'loss': 2.0 + state.step % 3}
        return state, metrics | {'points': 2.0} | high


def test_a_spike_is_reported_with_the_examples_of_its_own_batch() -> None:
    found: list[Any] = []

    class Recorder(SilentReporter):
        def spike(self, *args: Any) -> None:
            found.append(args)

    trainer = SpikingTrainer(steps=40, evaluate_every=100, checkpoint_every=100, smoothing_steps=20)
    run_loop(trainer, Saved(), reporter=Recorder(), describe=lambda place: {'batch': place})
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


def corpora(folder: Path) -> Config:
    """Two corpora; each line says its own number, some are blank or too long."""
    for name, count in (('one', 60), ('two', 30)):
        lines = [f'{name[0]} {" ".join(str(i))}' for i in range(1, count + 1)]
        lines[4], lines[9] = '', 'x ' * 40
        for language in ('in', 'out'):
            (folder / f'{name}.{language}').write_text(''.join(f'{line}\n' for line in lines))
    config = copy_config(folder, tokens_per_step=128)
    mixture = tuple(CorpusConfig(name, f'{name}.{{lang}}', '', weight=1.0) for name in ('one', 'two'))
    default = DataConfig()
    idle = {'train': default.train, 'validation': default.validation}  # beside a mixture
    data = replace(config.data, **idle, mixture=mixture, bpe_dropout=0.2)
    return replace(config, data=data, model=replace(config.model, vocab_size=30))


def test_the_sentences_of_a_batch_are_those_lines_of_the_files(tmp_path: Path) -> None:
    """With a mixture, lines that were left out, drawn segmentations, and rows from two blocks."""
    config = corpora(tmp_path)
    config = replace(config, data=replace(config.data, block_size=40))
    prepared = prepare(config, None, tmp_path / 'cache', say=lambda text: None)
    dataset = TrainingData(config, prepared)
    assert isinstance(dataset, PackedBatches)
    batches = iter(dataset)
    for _ in range(12):
        place = batches.get_state()
        batch = next(batches)
        seen: list[list[int]] = [[], []]
        for row in range(len(batch.source)):
            for segment in range(1, batch.source_segments[row].max() + 1):
                text = prepared.tokenizer.decode(batch.source[row][batch.source_segments[row] == segment])
                letter, _, number = text.partition(' ')
                seen[letter == 't'].append(int(number.replace(' ', '')))
        assert dataset.sentences(place) == [sorted(numbers) for numbers in seen]
        assert dataset.describe(place) == {'sentences': dict(zip(('one', 'two'), map(sorted, seen), strict=True))}
        assert sum(map(len, seen)) > 5
