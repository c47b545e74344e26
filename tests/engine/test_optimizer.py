"""Every optimizer by its name; parameters that are frozen; a schedule that ends elsewhere."""

import contextlib
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from conftest import copy_config
from tiny_translation import MODEL, uneven_batch
from toy_runs import make_trainer as make_circle_trainer
from toy_task import CircleConfig, draw

from flax_transformer.common.errors import UserError
from flax_transformer.config import OptimizerConfig, ParallelConfig
from flax_transformer.engine.config import LoopConfig
from flax_transformer.engine.launch import report_rate_jump
from flax_transformer.engine.optimizer import make_optimizer, make_schedule
from flax_transformer.engine.runs.checkpoints import Checkpoints
from flax_transformer.engine.step import frozen_by
from flax_transformer.engine.trainer import Trainer
from flax_transformer.tasks.api import make_trainer


def circle_trainer(strategy: str = 'pmap', num_devices: int = 1, **settings: Any) -> Trainer:
    optimizer = OptimizerConfig(**({'schedule': 'constant', 'warmup_steps': 0, 'learning_rate': 1e-2} | settings))
    return make_circle_trainer(CircleConfig(optimizer=optimizer, parallel=ParallelConfig(strategy, num_devices)))


def muon_trainer(folder: Path, **settings: Any) -> Trainer:
    """Of a Transformer: Muon is for kernels."""
    optimizer = OptimizerConfig(name='muon', schedule='constant', warmup_steps=0, **settings)
    return make_trainer(replace(copy_config(folder, tokens_per_step=8 * 32), model=MODEL, optimizer=optimizer))


def steps(trainer: Trainer, state: Any, batch: Any, count: int) -> tuple[Any, list[float]]:
    losses = []
    for _ in range(count):
        state, metrics = trainer.step(state, batch)
        losses.append(float(metrics['loss']))
    return state, losses


@pytest.mark.parametrize('name', ['adam', 'adafactor', pytest.param('muon', marks=pytest.mark.slow), 'lion'])
@pytest.mark.slow_cases('adafactor', 'lion')
def test_every_optimizer_lowers_the_loss_and_its_state_comes_back(name: str, tmp_path: Path) -> None:
    """Saved after ten steps and restored, the eleventh to fifteenth are those of a run without a break, to the bit."""
    if name == 'muon':
        trainer, batch = muon_trainer(tmp_path, learning_rate=1e-2, clip_norm=1.0), uneven_batch()
    else:
        rate = {'adafactor': 0.05}.get(name, 3e-2)
        trainer, batch = circle_trainer(name=name, learning_rate=rate, clip_norm=1.0), draw(4)
    state, losses = steps(trainer, trainer.init_state(), batch, 10)
    with contextlib.closing(Checkpoints(tmp_path / 'checkpoints')) as checkpoints:
        checkpoints.save(state, {}, {})
        checkpoints.wait()
        restored, _ = checkpoints.restore(trainer.init_state())
    assert jax.tree.structure(restored) == jax.tree.structure(state)
    # If a first or a restored state were placed otherwise than a step's result, the next step would compile again.
    for other in (trainer.init_state(), restored):
        assert jax.tree.map(lambda x: x.sharding, other) == jax.tree.map(lambda x: x.sharding, state)
    ends = [steps(trainer, each, batch, 5) for each in (state, restored)]
    jax.tree.map(np.testing.assert_array_equal, *(end for end, _ in ends))
    assert ends[0][1] == ends[1][1]
    assert ends[0][1][-1] < 0.8 * losses[0]


def test_muon_is_for_the_kernels_and_adam_for_the_rest() -> None:
    """Its updates have equal singular values; Adam's first one divides each element by its size and epsilon."""
    config = OptimizerConfig(
        name='muon', schedule='constant', warmup_steps=0, learning_rate=1e-2, epsilon=0.5, weight_decay=0.1
    )
    tx = make_optimizer(config, make_schedule(config, d_model=16, steps=9))
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.normal(size=shape).astype(np.float32)
    others = {
        'embedding': {'table': normal(9, 8)},
        'projection': normal(8, 9),
        'convolution': {'kernel': normal(3, 3, 1, 4), 'bias': np.ones(4, np.float32)},
        'output': {'kernel': normal(8, 2)},
    }
    params = others | {'dense': {'output': {'kernel': normal(8, 32)}}}
    updates, state = jax.jit(tx.update)(params, jax.jit(tx.init)(params), params)
    by_muon = np.asarray(updates.pop('dense')['output']['kernel']) + 1e-2 * 0.1 * params['dense']['output']['kernel']
    # 0.2 * sqrt(larger side), by Newton and Schulz to some 30 %.
    np.testing.assert_allclose(np.linalg.svd(by_muon, compute_uv=False), 1e-2 * 0.2 * 32**0.5, rtol=0.35)
    by_adam = jax.tree.map(lambda x: -1e-2 * (x / (abs(x) + 0.5) + 0.1 * x * (x.ndim > 1)), others)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4), updates, by_adam)
    # Muon keeps one moment of a kernel, Adam two of the others.
    moments = 8 * 32 + 2 * sum(x.size for x in jax.tree.leaves(others))
    assert sum(leaf.size for leaf in jax.tree.leaves(state) if leaf.ndim) - 3 == moments


def test_a_state_of_another_optimizer_is_refused_and_named(tmp_path: Path) -> None:
    """Orbax leaves None where a checkpoint has no such array, and drops what the state has no place for."""
    with contextlib.closing(Checkpoints(tmp_path / 'run' / 'checkpoints')) as checkpoints:
        checkpoints.save(circle_trainer(name='lion').init_state(), {}, {})
        checkpoints.wait()
        with pytest.raises(UserError, match=r'(?s)--init-from \S+/run@0 --workdir.*/nu/first: absent there, \(\d'):
            checkpoints.restore(circle_trainer().init_state())


@pytest.mark.parametrize(('strategy', 'num_devices'), [('pmap', 2), ('mesh', 4)])
def test_frozen_parameters_stay_to_the_bit(strategy: str, num_devices: int) -> None:
    """Despite weight decay and a moving average, which would move even what has no gradient."""
    settings = {'name': 'adamw', 'weight_decay': 0.1, 'ema_decay': 0.3, 'clip_norm': 1.0}
    trainer = circle_trainer(strategy, num_devices, freeze=('fir.*',), **settings)
    first = trainer.init_state()
    # A zero with a sign, and numbers of which three tenths and seven tenths are not the whole.
    params = jax.tree.map(np.array, first.params)
    for leaf in jax.tree.leaves(params):
        leaf.flat[0] = -0.0
    first = first._replace(params=params, ema=params)
    state, _ = steps(trainer, trainer.devices.put(first, trainer.devices.replicated), draw(4), 5)
    for tree in (state.params, state.ema):
        same = jax.tree.map(lambda a, b: np.asarray(a).tobytes() == np.asarray(b).tobytes(), tree, params)
        assert same == {'first': True, 'second': False}
    moments = sum(leaf.size for leaf in jax.tree.leaves(state.opt_state) if leaf.ndim)
    assert moments == 2 * params['second'].size


def test_what_is_frozen_has_no_gradient_and_no_part_in_the_norm_that_is_clipped() -> None:
    (every, _), (some, _) = (
        trainer.gradients(trainer.init_state(), draw(4))
        for trainer in (circle_trainer(), circle_trainer(freeze=('first',)))
    )
    assert every['first'].any()
    assert not some['first'].any()
    np.testing.assert_allclose(every['second'], some['second'], rtol=1e-5, atol=1e-7)
    config = OptimizerConfig(name='lion', schedule='constant', warmup_steps=0, learning_rate=1.0, clip_norm=0.5)
    schedule = make_schedule(config, d_model=16, steps=9)
    tx = make_optimizer(config, schedule, is_frozen={'a': True, 'b': False})
    gradients = {'a': np.float32([100]), 'b': np.float32([3])}
    _, state = jax.jit(lambda each: tx.update(each, tx.init(each), each))(gradients)
    assert [leaf.item() for leaf in jax.tree.leaves(state) if leaf.ndim] == pytest.approx([0.5 * 0.02])  # 1 - beta2


@pytest.mark.parametrize(
    ('patterns', 'expected'),
    [
        (('encoder/.*', 'enc'), r"optimizer.freeze: 'enc' matches no parameter. There are\n(.*\n)*  encoder/a\n"),
        (('.*',), r'optimizer.freeze: nothing is left to be trained. There are\n  decoder/b'),
    ],
)
def test_a_pattern_that_is_of_no_use_is_refused_with_the_paths(patterns: tuple[str, ...], expected: str) -> None:
    params = {'encoder': {'a': np.ones(2), 'b': np.ones(3)}, 'decoder': {'b': np.ones(4)}}
    with pytest.raises(UserError, match=expected):
        frozen_by(patterns, params)
    assert frozen_by(('encoder/b',), params) == {'encoder': {'a': False, 'b': True}, 'decoder': {'b': False}}


def test_a_schedule_may_end_later_than_training_and_then_training_goes_on_without_a_jump(capsys: Any) -> None:
    staged = OptimizerConfig(schedule='linear', learning_rate=0.01, warmup_steps=2, schedule_steps=8)
    rate = make_schedule(staged, d_model=16, steps=4)
    assert [float(rate(step)) for step in (1, 2, 5, 8)] == pytest.approx([0.005, 0.01, 0.005, 0.0])
    config = CircleConfig(training=LoopConfig(steps=4), optimizer=staged)
    longer = make_circle_trainer(replace(config, training=LoopConfig(steps=8)))
    report_rate_jump(longer, config.engine, 4)
    assert not capsys.readouterr().err
    without = replace(config, optimizer=replace(staged, schedule_steps=None))
    report_rate_jump(make_circle_trainer(config), without.engine, 3)
    assert 'is for 8 steps now, no longer for 4: the rate jumps from 0.005 to 0.00833' in capsys.readouterr().err
    inverse = OptimizerConfig(schedule='inverse_sqrt')
    config = CircleConfig(training=LoopConfig(steps=20, epochs=1.0), optimizer=inverse)
    longer = replace(config, training=LoopConfig(steps=40, epochs=2.0))
    report_rate_jump(make_circle_trainer(longer), config.engine, 20)
    assert 'the inverse_sqrt schedule is for 40 steps now, no longer for 20: the rate jumps' in capsys.readouterr().err
