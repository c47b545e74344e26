"""The best by loss or by BLEU, and training that ends where it no longer gets better."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from loop_doubles import CountingTrainer, Saved, run_loop
from tiny_states import make_state
from toy_runs import train_circle
from toy_task import CircleConfig

from flax_transformer.common.errors import Interrupted
from flax_transformer.engine.config import LoopConfig
from flax_transformer.engine.monitor.progress import EarlyStopping, checkpoint_metrics
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.engine.runs.checkpoints import Checkpoints
from flax_transformer.engine.task import TrainState

SCORES = [(5.0, 10.0), (1.0, 12.0), (2.0, 30.0), (3.0, 20.0), (4.0, 11.0)]  # loss and BLEU of steps 1 to 5


@pytest.mark.parametrize(
    ('best_by', 'keep_best', 'kept'),
    [('loss', 1, {2, 5}), ('bleu', 2, {3, 4, 5})],
)
def test_the_best_few_are_kept_beside_the_newest(tmp_path: Path, best_by: str, keep_best: int, kept: set[int]) -> None:
    checkpoints = Checkpoints(tmp_path, keep_last=1, keep_best=keep_best, best_by=best_by)
    for step, (loss, bleu) in enumerate(SCORES, start=1):
        checkpoints.save(make_state(step), {}, checkpoint_metrics({'loss': loss, 'bleu': bleu, 'nll': 0.5}))
    checkpoints.wait()
    assert checkpoints.best() == {'loss': 2, 'bleu': 3}[best_by]
    checkpoints.close()
    assert {int(folder.name) for folder in tmp_path.iterdir() if folder.name.isdigit()} == kept


@pytest.mark.parametrize('by', ['loss', 'bleu'])
def test_evaluations_without_a_better_score_are_counted(by: str) -> None:
    sign = {'loss': -1.0, 'bleu': 1.0}[by]
    early_stopping, counts = EarlyStopping(by, 0), []
    for step, score in enumerate((math.nan, 3.0, 4.0, 4.0, math.nan, 3.9, 4.1), start=1):
        early_stopping.add(step, {by: sign * score, 'other': step})
        counts.append(early_stopping.since)
        assert not early_stopping.is_over
        early_stopping = EarlyStopping(by, 0, early_stopping.state())
    assert counts == [1, 0, 0, 1, 2, 3, 0]
    assert (early_stopping.best, early_stopping.step) == (sign * 4.1, 7)
    other = EarlyStopping('loss' if by == 'bleu' else 'bleu', 0, early_stopping.state())
    assert other.best is None


LOSSES = {2: 3.0, 4: 2.0, 6: 2.5, 8: 1.9, 10: 2.0, 12: 1.95, 14: 1.9, 16: 1.0, 18: 0.9}


def train_steps(saved: Saved, *, first: int = 0, stop_at: int = 99, **training: Any) -> list[int]:
    """The steps that were evaluated from `first` on."""
    evaluated = []
    settings = {'steps': 18, 'log_every': 10, 'evaluate_every': 2, 'checkpoint_every': 5, 'patience': 3}
    trainer = CountingTrainer(stop_at=stop_at, **settings | training)

    def validate(state: TrainState) -> dict[str, float]:
        evaluated.append(state.step)
        return {'loss': LOSSES[state.step]}

    run_loop(trainer, saved, first=first, validate=validate)
    return evaluated


def test_training_ends_after_so_many_evaluations_without_a_better_one() -> None:
    saved = Saved()
    assert train_steps(saved) == [2, 4, 6, 8, 10, 12, 14]
    assert [(step, is_last) for step, (_, _, is_last) in saved.items()] == [(5, False), (10, False), (14, True)]
    assert saved[14][0] == {'validation_loss': 1.9}
    assert saved[14][1]['improvement'] == {'by': 'loss', 'best': 1.9, 'step': 8, 'since': 3}
    # More patience goes on from there; the count goes on, too.
    assert train_steps(saved, first=14, patience=4) == [16, 18]
    assert train_steps(Saved(), patience=0) == list(LOSSES)


@pytest.mark.parametrize('stop_at', [7, 8, 11, 12, 13])
def test_in_pieces_it_ends_where_it_would_end_at_once(stop_at: int) -> None:
    saved = Saved()
    with pytest.raises(Interrupted):
        train_steps(saved, stop_at=stop_at)
    train_steps(saved, first=stop_at)
    assert max(saved) == 14
    assert saved[14][1]['improvement'] == {'by': 'loss', 'best': 1.9, 'step': 8, 'since': 3}
    assert saved[14][1]['window']['steps'] == 4  # since the report of step 10: none is lost where it ends


def test_a_run_that_ended_early_says_so_and_goes_on_with_more_patience(tmp_path: Path, capsys) -> None:
    config = CircleConfig(training=LoopConfig(steps=12, evaluate_every=3, checkpoint_every=12, patience=2))
    go_on = lambda config: train_circle(tmp_path / 'run', config, lambda *_: {'loss': 1.5})
    go_on(config)
    best = 'the validation loss was best at step 3 (1.5), 2 evaluations ago'
    assert f'step 9: {best}: training stops (training.patience)' in capsys.readouterr().err
    go_on(config)
    stopped = f'was stopped early, after step 9: {best}; to go on, raise --training.patience above 2'
    assert stopped in capsys.readouterr().err
    go_on(replace(config, training=replace(config.training, patience=0)))
    assert 'going on from step 9' in capsys.readouterr().err
    assert [r['step'] for r in read_metrics(tmp_path / 'run') if r['kind'] == 'validation'] == [3, 6, 9, 12]
