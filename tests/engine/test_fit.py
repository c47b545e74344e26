"""Steps that fit epochs or minutes, and what is said after training."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import jax
import numpy as np
import pytest
from tiny_classification import tiny_config, write_texts
from toy_runs import train_circle
from toy_task import CircleConfig, CircleTask

from flax_transformer.common.errors import UserError
from flax_transformer.engine import fit
from flax_transformer.engine.launch import launch
from flax_transformer.engine.monitor.advice import advice
from flax_transformer.engine.recipe import declare
from flax_transformer.engine.runs.finished import steps_of
from flax_transformer.engine.runs.reading import CheckpointReader
from flax_transformer.tasks.api import run_of, train


@pytest.mark.slow
def test_epochs_decide_the_steps_and_a_resumed_run_keeps_them(tmp_path: Path, capsys, monkeypatch) -> None:
    write_texts(tmp_path)
    config = tiny_config(tmp_path, steps=1000, epochs=2.0)
    run_of(config, tmp_path / 'run').open(config)  # by a start that ended before it could count
    run = train(config, tmp_path / 'run')
    assert steps_of(run.checkpoints)[-1] == 20  # 240 texts in batches of 24
    assert run.read_config().training.steps == 20
    train(config, run.path)
    assert 'is trained already, to step 20; raise --training.epochs to go on' in capsys.readouterr().err
    train(replace(config, training=replace(config.training, epochs=1.0)), run.path)
    assert run.read_config().training.steps == 20  # what was done is what is written
    longer = replace(config, training=replace(config.training, epochs=3.0))
    monkeypatch.setattr(fit, 'fitted', Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        train(longer, run.path)
    monkeypatch.undo()
    train(longer, run.path)
    assert steps_of(run.checkpoints)[-1] == 30
    train(replace(config, training=replace(config.training, epochs=0.0, steps=5)), run.path)
    assert run.read_config().training.steps == 30


def test_what_is_fitted_is_made_once_and_learns_as_if_its_steps_were_given(tmp_path: Path) -> None:
    made: list[str] = []

    def counted(name: str, make: Any) -> Any:
        return lambda *arguments: made.append(name) or make(*arguments)

    training = declare(CircleTask).training()
    linear = replace(CircleConfig().optimizer, schedule='linear')
    short = replace(CircleConfig().training, checkpoint_every=6, evaluate_every=6)
    config = CircleConfig(optimizer=linear, training=replace(short, epochs=0.5))
    own = {name: counted(name, getattr(training, name)) for name in ('make_task', 'batches', 'validation')}
    recipe = declare(CircleTask, prepare=lambda *_, **__: np.zeros((480, 2)), **own)
    fitted = launch(recipe, config, tmp_path / 'fitted')  # half of 480 rows, in batches of 40
    assert sorted({*made}) == ['batches', 'make_task', 'validation']
    assert made.count('batches') == made.count('validation') == 1
    assert steps_of(fitted.checkpoints)[-1] == 6
    given = launch(recipe, replace(config, training=replace(short, steps=6)), tmp_path / 'given')
    ours, theirs = (
        CheckpointReader(run.checkpoints).restore(recipe.trainer(config).shapes)[0] for run in (fitted, given)
    )
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(ours), jax.device_get(theirs))


@pytest.mark.parametrize(
    ('prepared', 'rows'),
    [(np.zeros((7, 2)), 7), (np.zeros(30), 3), (Mock(train=np.zeros((5, 2))), 5), (None, None), ([1, 2], None)],
)
def test_the_rows_of_an_epoch_are_those_of_the_array(prepared: Any, rows: float | None) -> None:
    task = CircleTask(CircleConfig())
    task.slots_per_row = 10
    assert task.rows_per_epoch(prepared) == rows


def test_scenes_have_no_epochs(tmp_path: Path) -> None:
    training = replace(CircleConfig().training, epochs=1.0)
    with pytest.raises(UserError, match='circle has no end to count by'):
        train_circle(tmp_path / 'run', replace(CircleConfig(), training=training))


def records(*losses: float, **scores: float) -> list[dict[str, Any]]:
    found = [{'kind': 'validation', 'step': 10 * n, 'loss': loss, **scores} for n, loss in enumerate(losses, start=1)]
    return [{'kind': 'train', 'step': 1, 'loss': 1.0}, *found]


@pytest.mark.parametrize(
    ('found', 'said'),
    [
        (records(3.0, 2.0, 2.5, 2.7, 2.9), r'best at step 20 \(2\) and is 2.9 now, .* it overfits; more data'),
        (records(5.0, 4.0, 3.0, 2.0, 1.5), r'still fell from 2 to 1.5 .* twice as long \(--training.steps\)'),
        (records(2.0, 2.0, word_error_rate=0.5, deletion_rate=0.4), '40% of the words are left out, of 50% .* wrong'),
        (records(5.0, 3.0, 2.1, 2.0, 1.98, word_error_rate=0.5, deletion_rate=0.1), None),
        ([], None),
    ],
)
def test_what_metrics_show_is_said(found: list[dict[str, Any]], said: str | None) -> None:
    assert re.fullmatch(
        f'.*{said}.*' if said else '',
        ' '.join(advice(found, CircleConfig(training=replace(CircleConfig().training, steps=50)))),
    )


def test_a_rising_loss_is_no_overfitting_while_accuracy_improves() -> None:
    found = [each | {'accuracy': each['step'] / 100} for each in records(3.0, 2.0, 2.5, 2.7, 2.9)]
    training = replace(CircleConfig().training, best_by='accuracy', epochs=8.0)
    assert not advice(found, replace(CircleConfig(), training=training))
    (line,) = advice(found, replace(CircleConfig(), training=replace(training, best_by='loss')))
    assert line.endswith('or a training 40% as long (--training.epochs)')
