"""The engine trains a task that knows nothing of text: learns, shards, accumulates, resumes, stops early, reports."""

import gc
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from conftest import TESTS
from toy_runs import CircleRun, make_trainer, train_circle
from toy_task import CircleConfig, CircleTask, draw

from flax_transformer.common.errors import UserError
from flax_transformer.engine.config import ParallelConfig
from flax_transformer.engine.monitor.reporter import METRICS_FILE, Reporter, read_metrics
from flax_transformer.engine.runs.reading import CheckpointReader
from flax_transformer.engine.task import TrainState


def of_training(**fields: Any) -> CircleConfig:
    return replace(CircleConfig(), training=replace(CircleConfig().training, **fields))


def last_state(run: CircleRun) -> TrainState:
    return CheckpointReader(run.checkpoints).restore(make_trainer(run.read_config()).shapes)[0]


def accuracy_of(state: TrainState, reporter: Reporter) -> dict[str, float]:
    return make_trainer(CircleConfig()).evaluate(state.params, [draw(4_000)])


@pytest.fixture(scope='module')
def circle_run(tmp_path_factory: pytest.TempPathFactory) -> CircleRun:
    """A run to the end, without a break. Read it only."""
    return train_circle(tmp_path_factory.mktemp('toy') / 'run', CircleConfig(), accuracy_of)


def test_it_learns_and_reports(circle_run: CircleRun) -> None:
    records = read_metrics(circle_run.path)
    trained = [record for record in records if record['kind'] == 'train']
    assert [record['step'] for record in trained] == [10, 20, 30, 40, 50, 60]
    assert trained[-1]['loss'] < 0.6 * trained[0]['loss']
    assert trained[-1]['accuracy'] > 0.9
    # None to three of forty rows are empty in turn.
    assert trained[0]['weight'] == pytest.approx(np.mean([40 - number % 4 for number in range(10)]))
    assert trained[0]['weight_per_second'] > 0
    validated = [record for record in records if record['kind'] == 'validation']
    assert [record['step'] for record in validated] == [20, 40, 60]


@pytest.mark.parametrize(
    'parallel',
    [
        ParallelConfig('mesh', 8, data=2, fsdp=4),
        ParallelConfig('pmap', 8, max_tokens_per_device=2),
        ParallelConfig('mesh', 8, max_tokens_per_device=2),
    ],
    ids=['fsdp', 'pmap in passes', 'mesh in passes'],
)
@pytest.mark.slow_cases('fsdp', 'mesh in passes')
def test_eight_devices_compute_what_one_does(parallel: ParallelConfig) -> None:
    """Although devices have unequal shares: the last rows of a batch are empty, and so is part of the last pass."""
    one, eight = make_trainer(CircleConfig()), make_trainer(replace(CircleConfig(), parallel=parallel))
    assert eight.passes is None if parallel.max_tokens_per_device == 0 else eight.passes.count == 3
    for number in (2, 3):
        grads, sums = jax.device_get(one.gradients(one.init_state(), draw(number)))
        others, same = jax.device_get(eight.gradients(eight.init_state(), draw(number)))
        assert same['weight'] == sums['weight'] == 40 - number
        # Sums over forty rows in another order.
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), grads, others)
        np.testing.assert_allclose(same['loss'], sums['loss'], rtol=1e-6)


def test_a_killed_run_goes_on_to_the_bit_and_imports_no_other_room(circle_run: CircleRun, tmp_path: Path) -> None:
    program = (
        'import os, signal, sys\n'
        f'sys.path.insert(0, {str(TESTS)!r})\n'
        'from pathlib import Path\n'
        'import toy_task, toy_runs\n'
        'def draw(number, rows, draw=toy_task.draw):\n'
        '    if number == 50:\n'
        '        print(*sorted(sys.modules), flush=True)\n'
        '        os.kill(os.getpid(), signal.SIGKILL)\n'
        '    return draw(number, rows)\n'
        'toy_task.draw = draw\n'
        'toy_runs.train_circle(Path(sys.argv[1]), toy_task.CircleConfig())\n'
    )
    command = [sys.executable, '-c', program, str(tmp_path / 'run')]
    killed = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    rooms = {name.split('.')[1] for name in killed.stdout.split() if name.startswith('flax_transformer.')}
    assert rooms == {'common', 'engine', 'ops'}  # ops/ for checkpoints in eight bits

    run = CircleRun(tmp_path / 'run')
    assert int(last_state(run).step) in (20, 40)  # the save of step 40 may have been under way
    train_circle(run.path, CircleConfig(), accuracy_of)
    jax.tree.map(np.testing.assert_array_equal, last_state(run), last_state(circle_run))
    assert train_records(run) == train_records(circle_run)


def train_records(run: CircleRun) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl on training, without what depends on the clock."""
    records = map(json.loads, (run.path / METRICS_FILE).read_text().splitlines())
    clock = re.compile('time|seconds_per_step|.*_per_second|data_wait')
    return [
        {name: value for name, value in record.items() if not clock.fullmatch(name)}
        for record in records
        if record['kind'] == 'train'
    ]


@pytest.mark.parametrize('parallel', [ParallelConfig(), ParallelConfig('mesh', 2, fsdp=2)])
@pytest.mark.slow
def test_a_resumed_run_holds_one_state(parallel: ParallelConfig, tmp_path: Path, monkeypatch) -> None:
    """None but the checkpoint's is ever made, and its arrays are placed as those of a new run."""
    config = replace(of_training(steps=2), parallel=parallel)
    new, made, restore = [], [], CheckpointReader.restore

    def counted(checkpoints: CheckpointReader, like: TrainState) -> tuple[TrainState, dict[str, Any]]:
        shapes = {leaf.shape for leaf in jax.tree.leaves(like.params)}
        new.extend(x.shape for x in jax.live_arrays() if id(x) not in others and x.shape in shapes)
        found = restore(checkpoints, like)
        made.extend(jax.tree.map(lambda x: x.sharding, (found[0], trainer.init_state())))
        return found

    run, trainer = train_circle(tmp_path / 'run', config), make_trainer(config)
    gc.collect()
    monkeypatch.setattr(CheckpointReader, 'restore', counted)
    before = jax.live_arrays()  # other tests' arrays, held so that no new array has the place of one
    others = set(map(id, before))
    train_circle(run.path, replace(config, training=replace(config.training, steps=4)))
    assert new == []
    assert made[0] == made[1]


def test_what_a_task_gets_wrong_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that was trained is lost by a score that is missing."""
    config = of_training(steps=30, evaluate_every=20, checkpoint_every=100, best_by='f1')
    with pytest.raises(ValueError, match=r"training.best_by='f1': the validation gives accuracy; choose one of them"):
        train_circle(tmp_path / 'run', config, lambda state, _: {'accuracy': np.float32(0.5)})
    assert int(last_state(CircleRun(tmp_path / 'run')).step) == 20
    trainer = make_trainer(CircleConfig())
    with pytest.raises(ValueError, match=r'a batch has 16 rows'):
        trainer.step(trainer.init_state(), draw(1, rows=16))
    with pytest.raises(ValueError, match='CircleTask has no batch_shapes'):
        trainer.lower()
    monkeypatch.setattr(CircleTask, 'slots_per_row', 2)
    with pytest.raises(ValueError, match=r'max_tokens_per_device=1: expected at least 2, one row, or 0'):
        make_trainer(replace(CircleConfig(), parallel=ParallelConfig(max_tokens_per_device=1)))
    monkeypatch.setattr(CircleTask, 'slots_per_row', 1)
    monkeypatch.setattr(CircleTask, 'counts', ('tokens',))
    trainer = make_trainer(CircleConfig())
    with pytest.raises(ValueError, match=r"the loss returned the sums right, weight; expected 'tokens'"):
        trainer.step(trainer.init_state(), draw(1))


@pytest.mark.parametrize(('name', 'value'), [('JAX_DEFAULT_PRNG_IMPL', 'rbg'), ('JAX_THREEFRY_PARTITIONABLE', False)])
def test_a_run_does_not_go_on_with_other_random_numbers(
    name: str, value: Any, circle_run: CircleRun, tmp_path: Path
) -> None:
    shutil.copytree(circle_run.path, tmp_path / 'run')
    before = getattr(jax.config, name.lower())
    jax.config.update(name.lower(), value)
    try:
        with pytest.raises(UserError, match=f'{name}={before}.*, got .*{name}={value}.*; set '):
            train_circle(tmp_path / 'run', of_training(steps=80))
    finally:
        jax.config.update(name.lower(), before)


def test_scores_may_be_arrays_and_devices_may_change_on_resume(tmp_path: Path) -> None:
    validate = lambda state, _: {'loss': np.float32(0.5), 'accuracy': jax.numpy.float32(0.75)}
    run = train_circle(tmp_path / 'run', of_training(steps=20, evaluate_every=20), validate)
    assert read_metrics(run.path)[-1]['accuracy'] == 0.75
    wider = replace(of_training(steps=40, evaluate_every=40), parallel=ParallelConfig('mesh', 2))
    assert int(last_state(train_circle(run.path, wider, validate)).step) == 40
