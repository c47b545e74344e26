"""A whole task: a two-layer network learns which points lie inside the unit circle."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import grain
import jax
import jax.numpy as jnp
import numpy as np
import optax

from flax_transformer.engine.config import EngineConfig, LoopConfig, OptimizerConfig, ParallelConfig
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.runs.run_directory import RunDirectory
from flax_transformer.engine.task import Task
from flax_transformer.engine.train import Validate, train, training_in
from flax_transformer.engine.trainer import Trainer

ROWS = 40  # five for each of eight devices: passes of two leave an uneven last one


class Points(NamedTuple):
    x: np.ndarray  # [R, 2]
    is_inside: np.ndarray  # [R]
    weight: np.ndarray  # [R] 1, or 0 for an empty row


class CircleTask(Task):
    rows_per_step = ROWS

    def init(self, key: jax.Array) -> dict[str, jax.Array]:
        first, second = jax.random.split(key)
        return {'first': jax.random.normal(first, (2, 16)), 'second': jax.random.normal(second, (16,))}

    def loss(self, params: Any, batch: Points, key: jax.Array | None) -> tuple[jax.Array, dict[str, jax.Array]]:
        logits = jnp.cos(batch.x @ params['first']) @ params['second']
        losses = optax.sigmoid_binary_cross_entropy(logits, batch.is_inside)
        is_right = (logits > 0) == (batch.is_inside > 0)
        return (losses * batch.weight).sum(), {'weight': batch.weight.sum(), 'right': (is_right * batch.weight).sum()}

    def summarize(self, sums: dict[str, float]) -> dict[str, float]:
        return {'loss': sums['loss'] / sums['weight'], 'accuracy': sums['right'] / sums['weight']}


class PointStream(grain.IterDataset):
    """Batches without end, each drawn from its own number; the last rows are empty, a few in each batch."""

    name, fingerprint = 'points', 'the unit circle'

    def __iter__(self) -> 'PointIterator':
        return PointIterator()

    def describe(self, place: dict[str, int]) -> dict[str, Any]:
        return {'batch': place['number']}


class PointIterator(grain.DatasetIterator):
    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    def __next__(self) -> Points:
        self.number += 1
        return draw(self.number)

    def get_state(self) -> dict[str, int]:
        return {'number': self.number}

    def set_state(self, state: dict[str, int]) -> None:
        self.number = state['number']


def draw(number: int, rows: int = ROWS) -> Points:
    x = np.random.default_rng(number).uniform(-1.5, 1.5, (rows, 2)).astype(np.float32)
    weight = (np.arange(rows) < rows - number % 4).astype(np.float32)
    return Points(x, ((x**2).sum(axis=1) < 1).astype(np.float32), weight)


OPTIMIZER = OptimizerConfig(schedule='constant', learning_rate=0.05, warmup_steps=0)
TRAINING = LoopConfig(steps=60, log_every=10, evaluate_every=20, checkpoint_every=20, keep_last=9)
ONE_DEVICE = ParallelConfig()


@dataclass(frozen=True)
class CircleConfig:
    task: ClassVar[str] = 'circle'
    optimizer: OptimizerConfig = OPTIMIZER
    training: LoopConfig = TRAINING
    parallel: ParallelConfig = ONE_DEVICE
    seed: int = 0


class CircleRun(RunDirectory):
    config_class = CircleConfig


def make_trainer(config: CircleConfig, devices: Sequence[jax.Device] | None = None) -> Trainer:
    engine = EngineConfig(config.optimizer, config.training, config.parallel, config.seed)
    return Trainer(CircleTask(), engine, Devices(config.parallel, devices))


def train_circle(folder: Path, config: CircleConfig, validate: Validate | None = None) -> CircleRun:
    run = CircleRun(folder)
    run.check(config)
    with training_in(run) as stop:
        run.open(config)
        train(make_trainer(config), run, PointStream(), stop=stop, validate=validate)
    return run
