"""An evaluation cut by SIGTERM: made good at the next start, and then as if nothing had happened."""

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from toy_runs import CircleRun, make_trainer, train_circle
from toy_task import CircleConfig

from flax_transformer.common.errors import Interrupted
from flax_transformer.engine.monitor.reporter import Reporter, read_metrics
from flax_transformer.engine.runs.finished import REPLACED
from flax_transformer.engine.runs.reading import CheckpointReader
from flax_transformer.engine.task import TrainState

LOSSES = {10: 0.9, 20: 0.5, 30: 0.1, 40: 0.3}  # the best of those saved, at 20 and 40, comes last


def of_training(**fields: Any) -> CircleConfig:
    fields = {'steps': 40, 'evaluate_every': 10, 'checkpoint_every': 20, 'keep_last': 1, **fields}
    return replace(CircleConfig(), training=replace(CircleConfig().training, **fields))


class Validate:
    """Scores by step; at some steps, sends this process SIGTERM first, once each."""

    def __init__(self, *cut: int, losses: dict[int, float] = LOSSES) -> None:
        self.cut, self.losses, self.evaluated = set(cut), losses, []

    def __call__(self, state: TrainState, _: Reporter) -> dict[str, float]:
        step = int(state.step)
        if step in self.cut:
            self.cut.remove(step)
            os.kill(os.getpid(), signal.SIGTERM)
        self.evaluated.append(step)
        return {'loss': self.losses[step]}


def outcome(run: CircleRun) -> dict[str, Any]:
    """All that a run leaves, except times."""
    checkpoints = CheckpointReader(run.checkpoints)
    state, position = checkpoints.restore(make_trainer(run.read_config()).shapes)
    best = checkpoints.best()
    metrics = {step: checkpoints.metrics(step) for step in {best, checkpoints.latest()}}
    for name in ('seconds', 'waited'):
        position['progress']['window'].pop(name)
    records = [record for record in read_metrics(run.path) if record['kind'] == 'validation']
    scores = {record['step']: record['loss'] for record in records}
    return {'best': best, 'metrics': metrics, 'position': position, 'scores': scores, 'state': state}


def assert_alike(run: CircleRun, unbroken: CircleRun) -> None:
    one, other = outcome(run), outcome(unbroken)
    jax.tree.map(np.testing.assert_array_equal, one.pop('state'), other.pop('state'))
    assert one == other
    assert not (run.path / REPLACED).exists()


@pytest.fixture(scope='module')
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> CircleRun:
    """Read it only."""
    return train_circle(tmp_path_factory.mktemp('cut') / 'unbroken', of_training(), Validate())


def test_a_run_cut_in_each_evaluation_ends_as_an_unbroken_one(unbroken: CircleRun, tmp_path: Path, capfd) -> None:
    """The one at 30, which is best, is of a step that is not saved anyway."""
    validate, config = Validate(*LOSSES), of_training()
    for step in LOSSES:
        with pytest.raises(Interrupted, match=f'SIGTERM: stopped after step {step}, which is saved'):
            train_circle(tmp_path, config, validate)
    run = train_circle(tmp_path, config, validate)
    assert validate.evaluated == [10, 20, 30, 40]
    assert_alike(run, unbroken)
    capfd.readouterr()
    train_circle(tmp_path, config, validate)
    assert 'is trained already, to step 40' in capfd.readouterr().err
    assert len(validate.evaluated) == 4


@pytest.mark.slow
def test_an_early_stop_by_an_evaluation_that_was_cut_is_final(tmp_path: Path, capfd) -> None:
    config = of_training(patience=2, checkpoint_every=50)
    losses = {10: 0.5, 20: 0.6, 30: 0.7}
    unbroken = train_circle(tmp_path / 'unbroken', config, Validate(losses=losses))
    validate = Validate(30, losses=losses)
    with pytest.raises(Interrupted):
        train_circle(tmp_path / 'cut', config, validate)
    run = train_circle(tmp_path / 'cut', config, validate)
    assert_alike(run, unbroken)
    capfd.readouterr()
    train_circle(run.path, config, validate)
    assert 'was stopped early, after step 30' in capfd.readouterr().err
    assert validate.evaluated == [10, 20, 30]


@pytest.mark.slow
def test_an_error_while_an_evaluation_is_made_good_loses_nothing(unbroken: CircleRun, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        train_circle(tmp_path, of_training(), Validate(40))
    with pytest.raises(KeyError):
        train_circle(tmp_path, of_training(), Validate(losses={}))
    assert_alike(train_circle(tmp_path, of_training(), Validate()), unbroken)
