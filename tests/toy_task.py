"""A whole task: a two-layer network learns which points are inside the unit circle."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from flax_transformer.engine.config import LoopConfig, OptimizerConfig, TaskConfig
from flax_transformer.engine.recipe import declare
from flax_transformer.engine.task import Task

OPTIMIZER = OptimizerConfig(schedule='constant', learning_rate=0.05, warmup_steps=0)
TRAINING = LoopConfig(steps=60, log_every=10, evaluate_every=20, checkpoint_every=20, keep_last=9)


@dataclass(frozen=True, kw_only=True)
class CircleConfig(TaskConfig):
    task: ClassVar[str] = 'circle'

    hidden: int = 16
    rows: int = 40
    optimizer: OptimizerConfig = OPTIMIZER
    training: LoopConfig = TRAINING


class Points(NamedTuple):
    x: np.ndarray  # [R, 2]
    is_inside: np.ndarray  # [R]
    weight: np.ndarray  # [R] 1, or 0 for an empty row


class CircleTask(Task):
    Config = CircleConfig

    def __init__(self, config: CircleConfig) -> None:
        self.config, self.rows_per_step = config, config.rows

    def batch(self, prepared: None, number: int) -> Points:
        return draw(number, self.config.rows)

    def init(self, key: jax.Array) -> dict[str, jax.Array]:
        first, second = jax.random.split(key)
        hidden = self.config.hidden
        return {'first': jax.random.normal(first, (2, hidden)), 'second': jax.random.normal(second, (hidden,))}

    def loss(self, params: Any, batch: Points, key: jax.Array | None) -> tuple[jax.Array, dict[str, jax.Array]]:
        logits = jnp.cos(batch.x @ params['first']) @ params['second']
        losses = optax.sigmoid_binary_cross_entropy(logits, batch.is_inside)
        is_right = (logits > 0) == (batch.is_inside > 0)
        return (losses * batch.weight).sum(), {'weight': batch.weight.sum(), 'right': (is_right * batch.weight).sum()}

    def summarize(self, sums: dict[str, float]) -> dict[str, float]:
        return {'loss': sums['loss'] / sums['weight'], 'accuracy': sums['right'] / sums['weight']}


def draw(number: int, rows: int = 40) -> Points:
    """Points that depend on their number alone; the last rows are empty, a few in each batch."""
    x = np.random.default_rng(number).uniform(-1.5, 1.5, (rows, 2)).astype(np.float32)
    weight = (np.arange(rows) < rows - number % 4).astype(np.float32)
    return Points(x, ((x**2).sum(axis=1) < 1).astype(np.float32), weight)


RECIPE = declare(CircleTask)
