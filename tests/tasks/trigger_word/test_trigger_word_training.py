"""Training a trigger word: learned, resumed to the bit, the same on two devices; evaluated; what it refuses."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import jax
import numpy as np
import pytest
from tiny_trigger_word import RATE, tiny_config

from flax_transformer import train
from flax_transformer.cli import main
from flax_transformer.common.errors import UserError
from flax_transformer.engine.config import ParallelConfig
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.engine.runs.reading import CheckpointReader
from flax_transformer.tasks.api import make_trainer
from flax_transformer.tasks.trigger_word.detector import Detector
from flax_transformer.tasks.trigger_word.evaluate import _lines
from flax_transformer.tasks.trigger_word.pictures import plot_scores
from flax_transformer.tasks.trigger_word.run import Run
from flax_transformer.tasks.trigger_word.scenes import Clip, Clips, Scenes, batch_of, read_part
from flax_transformer.tasks.trigger_word.scoring import score
from flax_transformer.tasks.trigger_word.training import scenes_of


def test_validation_reports_what_it_learned(tiny_detector: Path) -> None:
    records = [record for record in read_metrics(tiny_detector) if record['kind'] == 'validation']
    assert [record['step'] for record in records] == [60, 120]
    assert records[-1]['loss'] < records[0]['loss'] < np.log(2)
    assert records[-1]['false_rejects'] < 1


def test_training_leaves_the_statistics_of_the_features_alone(tiny_detector: Path) -> None:
    config = tiny_config()
    clips = read_part(config, 'train', say=lambda text: None)
    samples = np.stack([Scenes(clips, config, seed=0).scene(number).samples for number in range(4)])
    assert np.abs(samples).max() > 0
    checkpoints = CheckpointReader(Run(tiny_detector).checkpoints)
    like = make_trainer(config).shapes.params
    first, last = (checkpoints.restore_params(like, step)[0] for step in (60, 120))
    assert (np.asarray(last['deviation']) > 0.5).all()
    for name in ('mean', 'deviation'):
        np.testing.assert_array_equal(first[name], last[name])
    assert not np.array_equal(first['output']['kernel'], last['output']['kernel'])


@pytest.mark.slow
def test_two_devices_compute_what_one_does() -> None:
    """Without dropout and recoloring, which pmap draws by device; the last row is empty."""
    config = tiny_config(batch_size=4)
    scenes = Scenes(read_part(config, 'train', say=lambda text: None), config, seed=0)
    batch = batch_of([scenes.scene(number) for number in range(3)], 4)
    one, two = (make_trainer(replace(config, parallel=ParallelConfig(num_devices=count))) for count in (1, 2))
    params = one.init_state().params
    expected, found = (trainer.sums(params, batch) for trainer in (one, two))
    assert float(expected['weighted_frames']) == batch.weight.sum()
    # Sums in another order.
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), dict(found), dict(expected))


@pytest.mark.slow
def test_a_run_starts_from_another(tiny_detector: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r'model\.hidden_size: 16 there, 8 here'):
        train(tiny_config(model={'hidden_size': 8}), tmp_path / 'new', init_from=tiny_detector)
    other = replace(tiny_config(), features=replace(tiny_config().features, window_ms=30.0))
    with pytest.raises(UserError, match=r'features\.window_ms: 40 there, 30\.0 here'):
        train(other, tmp_path / 'new', init_from=tiny_detector)
    train(tiny_config(steps=1, evaluate_every=1, checkpoint_every=1), tmp_path / 'new', init_from=tiny_detector)
    assert read_metrics(tmp_path / 'new')[-1]['loss'] < 0.6


def test_evaluate_scores_the_test_recordings(tiny_detector: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['evaluate', str(tiny_detector), '--json']) == 0
    found = json.loads(capsys.readouterr().out)
    assert found['words'] == 20
    assert found['misses'] == len(found['missed']) == 20 - len(found['delays'])
    assert found['rejects_low'] <= found['misses'] / 20 <= found['rejects_high']
    assert found['false_accepts'] == len(found['wrong'])
    assert set(found['hours_by_text']) == {'falling', 'valley', 'hill', 'dip', 'drop'}
    assert sum(found['hours_by_text'].values()) == pytest.approx(found['negative_hours'])
    # The curve goes through the threshold of the run.
    assert found['thresholds'] == sorted(found['thresholds'])
    at = found['thresholds'].index(0.5)
    assert found['threshold'] == 0.5
    assert found['false_rejects'][at] == found['misses'] / 20
    assert main(['evaluate', str(tiny_detector), '--part', 'validation', '--threshold', '0.9']) == 0
    text = capsys.readouterr().out
    assert 'threshold          0.9\n' in text
    assert 'Clopper-Pearson' in text
    assert main(['evaluate', str(tiny_detector), str(tiny_detector)]) == 2
    assert 'detectors form no ensemble' in capsys.readouterr().err
    clips = read_part(tiny_config(), 'test', say=lambda text: None)._replace(others=[])
    alone = score(Detector.from_run(tiny_detector), clips)
    assert set(alone.false_accepts_per_hour) == {None}
    assert '' not in _lines('test', alone)[len(alone.missed + alone.wrong) + 1 :]
    with pytest.raises(UserError, match='no recordings without the word'):
        plot_scores(asdict(alone))


def test_a_short_word_in_a_long_recording_fits_into_a_scene() -> None:
    clip = Clip(np.zeros(9 * RATE, np.float32), 'rising', RATE, 2 * RATE, 'a.wav:1')
    assert scenes_of(Clips([clip], [], []), tiny_config(), 'train', seed=0).scene(0).samples.shape == (4 * RATE,)


@pytest.mark.slow
def test_show_check_curves_and_average_serve_a_detector(tiny_detector: Path, tmp_path: Path, capsys) -> None:
    assert main(['show', str(tiny_detector), '--no-compile']) == 0
    assert 'rows of 4 seconds' in capsys.readouterr().out
    assert main(['curves', str(tiny_detector)]) == 0
    assert 'best loss' in capsys.readouterr().out
    assert main(['average', str(tiny_detector), str(tmp_path / 'mean'), '--last', '2']) == 0
    capsys.readouterr()
    file = tmp_path / 'tiny.py'
    file.write_text('from tiny_trigger_word import tiny_config as get_config')
    assert main(['check', str(file)]) == 0
    assert 'checked train (240), validation (60), test (60)' in capsys.readouterr().out
    assert main(['train', str(file), '--workdir', str(tiny_detector)]) == 0
    assert f'flax-transformer detect {tiny_detector} recording.wav' in capsys.readouterr().out
