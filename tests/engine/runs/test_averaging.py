"""`flax-transformer average`: the mean of checkpoints, as a run."""

import contextlib
import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import copy_config
from tiny_translation import drawn
from toy_runs import CircleRun, train_circle
from toy_task import TRAINING, CircleConfig

from flax_transformer import train
from flax_transformer.cli import main
from flax_transformer.config import ParallelConfig
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.engine.runs import averaging
from flax_transformer.engine.runs.checkpoints import Checkpoints
from flax_transformer.tasks.api import make_trainer
from flax_transformer.tasks.translation.loading import load_run
from flax_transformer.tasks.translation.run import Run
from flax_transformer.transformer.model import parameter_shapes

LOSSES = {1: 3.0, 2: 0.5, 3: 2.0, 4: 1.0, 5: 4.0}


@pytest.fixture(scope='module')
def run(copy_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with five checkpoints: of each leaf the value at the corner is step^2, the losses are LOSSES."""
    path = tmp_path_factory.mktemp('averaged') / 'run'
    shutil.copytree(copy_run, path, ignore=shutil.ignore_patterns('checkpoints'))
    shapes = make_trainer(Run(path).read_config()).shapes
    state = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)

    def cornered(leaf: np.ndarray, value: float) -> jax.Array:
        leaf = leaf.copy()
        leaf.flat[0] = value
        return jnp.asarray(leaf)

    with contextlib.closing(Checkpoints(path / 'checkpoints', keep_last=5)) as checkpoints:
        for step, loss in LOSSES.items():
            params = jax.tree.map(partial(cornered, value=step**2), state.params)
            metrics = {'validation_loss': loss, 'validation_bleu': float(step)} if step != 5 else {}
            checkpoints.save(state._replace(step=jax.numpy.int32(step), params=params), {}, metrics)
    return path


def corners(path: Path) -> set[float]:
    """The value of every leaf at its corner."""
    params = load_run(path).params
    return {float(x.flat[0]) for x in jax.tree.leaves(jax.device_get(params))}


@pytest.mark.parametrize(
    ('argv', 'steps'),
    [
        (['--last', '2'], [4, 5]),
        (['--best', '2'], [2, 4]),
        (['--steps', '1,3, 4'], [1, 3, 4]),
    ],
)
def test_the_parameters_are_the_mean_of_those_asked_for(run: Path, tmp_path: Path, argv: list[str], steps) -> None:
    """Point 15."""
    out = tmp_path / 'out'
    assert main(['average', str(run), *argv, str(out)]) == 0
    (corner,) = corners(out)
    assert corner == pytest.approx(np.mean([step**2 for step in steps]))
    assert json.loads((out / 'average.json').read_text()) == {'run': str(run), 'steps': steps}
    assert Run(out).read_tokenizer().model == Run(run).read_tokenizer().model


@pytest.mark.slow
def test_eight_bits_are_a_quarter_of_the_size_and_read_back(run: Path, tmp_path: Path) -> None:
    for name, flags in (('whole', []), ('small', ['--int8'])):
        assert main(['average', str(run), '--last', '2', str(tmp_path / name), *flags]) == 0
    whole, small = (load_run(tmp_path / name).params for name in ('whole', 'small'))
    # The largest of each column, step^2, is 127 of its scale.
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6), whole, small)
    assert (tmp_path / 'small' / 'checkpoints' / '0' / 'int8').is_dir()


@pytest.mark.slow
def test_the_best_by_bleu_are_others(run: Path, tmp_path: Path) -> None:
    other = tmp_path / 'run'
    shutil.copytree(run, other)
    config = Run(other).read_config()
    training = replace(config.training, best_by='bleu', evaluate_bleu=1)
    Run(other).write_config(replace(config, training=training))
    assert main(['average', str(other), str(tmp_path / 'out'), '--best', '3']) == 0
    (corner,) = corners(tmp_path / 'out')
    assert corner == pytest.approx((4 + 9 + 16) / 3)


@pytest.mark.slow
def test_training_starts_from_a_mean(run: Path, copy_folder: Path, tmp_path: Path, capsys) -> None:
    assert main(['average', str(run), str(tmp_path / 'out'), '--last', '3']) == 0
    config = copy_config(copy_folder, steps=1, log_every=1)
    config = replace(config, data=replace(config.data, validation=''))
    tuned = train(config, tmp_path / 'tuned', init_from=tmp_path / 'out')
    assert len(read_metrics(tuned.path)) == 1
    # There is nothing to go on with in the mean itself.
    capsys.readouterr()
    with pytest.raises(Exception, match=r'holds only parameters.*--init-from'):
        train(Run(tmp_path / 'out').read_config(), tmp_path / 'out')


@pytest.mark.parametrize(
    ('argv', 'expected'),
    [
        ([], 'expected one of --last N, --best N and --steps'),
        (['--last', '2', '--best', '1'], 'expected one of'),
        (['--last', '-1'], 'N of at least 1'),
        (['--steps', '1;2'], 'expected steps separated by commas'),
        (['--last', '6'], 'has 5 checkpoints, not 6; its checkpoints: 1, 2, 3, 4, 5; ask for fewer, or keep more'),
        (['--best', '5'], 'has 4 checkpoints with a validation loss, not 5'),
        (['--steps', '1,7,9'], 'has no checkpoint of step 7, 9; its checkpoints: 1, 2'),
    ],
)
def test_what_cannot_be_averaged_is_refused(run: Path, tmp_path: Path, argv: list[str], expected: str, capsys) -> None:
    assert main(['average', str(run), str(tmp_path / 'out'), *argv]) == 2
    assert expected in capsys.readouterr().err
    assert not (tmp_path / 'out').exists()


@pytest.mark.slow
def test_another_models_checkpoint_among_them_is_told(run: Path, copy_folder: Path, tmp_path: Path, capsys) -> None:
    other = tmp_path / 'run'
    shutil.copytree(run, other)
    config = copy_config(copy_folder)
    wider = replace(config.model, d_ff=128)
    assert jax.tree.structure(parameter_shapes(wider)) == jax.tree.structure(parameter_shapes(config.model))
    shutil.rmtree(other / 'checkpoints' / '4')
    with contextlib.closing(Checkpoints(tmp_path / 'wider' / 'checkpoints')) as checkpoints:
        checkpoints.save_params(drawn(parameter_shapes(wider)))
    shutil.copytree(tmp_path / 'wider' / 'checkpoints' / '0', other / 'checkpoints' / '4')
    assert main(['average', str(other), str(tmp_path / 'out'), '--last', '2']) == 2
    message = capsys.readouterr().err
    assert 'checkpoint 4' in message
    assert 'feed_forward' in message
    assert not (tmp_path / 'out').exists()


def test_a_folder_that_is_there_is_left_alone(run: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / 'out').mkdir()
    (tmp_path / 'out' / 'mine').write_text('x')
    assert main(['average', str(run), str(tmp_path / 'out'), '--last', '2']) == 2
    assert 'exists already' in capsys.readouterr().err
    assert main(['average', str(run)]) == 2
    assert 'expected RUN and OUT' in capsys.readouterr().err


@pytest.mark.parametrize(('module', 'times'), [('flax_transformer.tasks.translation.run', 1), ('somebodys.task', 2)])
def test_shapes_are_traced_once_for_models_of_this_package(
    module: str, times: int, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    init, calls = Run.init_params, []

    def counted(config: Any, key: Any) -> Any:
        calls.append(key)
        return init(config, key)

    counted.__module__ = module
    monkeypatch.setattr(Run, 'init_params', staticmethod(counted))
    before = jax.config.jax_compilation_cache_dir
    jax.config.update('jax_compilation_cache_dir', str(tmp_path))
    try:
        first, second = (load_run(run).params for _ in range(2))
    finally:
        jax.config.update('jax_compilation_cache_dir', before)
    assert len(calls) == times
    jax.tree.map(np.testing.assert_array_equal, first, second)


@pytest.mark.slow
def test_a_run_of_several_devices_is_loaded_on_one(tmp_path: Path) -> None:
    """A machine that has only one loads it too: Orbax would look for the devices that saved it."""
    training = replace(TRAINING, steps=1, checkpoint_every=1, evaluate_every=1)
    train_circle(tmp_path / 'run', CircleConfig(training=training, parallel=ParallelConfig('mesh', 2)))
    params = averaging.load_run(CircleRun, tmp_path / 'run').params
    assert {tuple(leaf.devices()) for leaf in jax.tree.leaves(params)} == {(jax.devices()[0],)}
