"""How fast this machine trains a model, measured on a few small steps."""

import time
from collections.abc import Callable

import jax
import numpy as np

from flax_transformer.engine.trainer import Trainer

STEPS = 3  # of which the fastest counts


def training_flops(trainer: Trainer, *, clock: Callable[[], float] = time.perf_counter) -> float:
    """FLOP/s of a trainer's steps, all devices together, counting as `Task.flops_per_step` does; compiles the step."""
    shapes = trainer.task.batch_shapes()
    batch = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)  # as much work as text
    state = trainer.init_state()
    state, sums = trainer.step(state, batch)  # compiles
    jax.block_until_ready(sums)
    seconds = []
    for _ in range(STEPS):
        start = clock()
        state, sums = trainer.step(state, batch)
        jax.block_until_ready((state, sums))
        seconds.append(clock() - start)
    return trainer.task.flops_per_step / min(seconds)
