"""The training step of a config for devices that need not be here: to be compiled ahead of time, and looked at."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from flax_transformer.config import Config
from flax_transformer.data import Batch
from flax_transformer.train_state import TrainState
from flax_transformer.training import Trainer


class Program(NamedTuple):
    """`step.lower(state, batch, key).compile()` is what training would run; nothing is on any device."""

    mesh: Mesh
    state: TrainState  # of jax.ShapeDtypeStruct, with shardings
    batch: Batch  # the same
    key: jax.ShapeDtypeStruct
    step: Callable[..., Any]  # jitted: (state, batch, key) -> (state, metrics); the state is donated


def train_program(config: Config, devices: Sequence[jax.Device]) -> Program:
    """The step of a config on all of `devices`, as those of a `jax.experimental.topologies` description.

    It is always the mesh's; pmap is its case with a data axis alone. Raises UserError where the config's mesh or rows
    do not divide among so many devices.
    """
    dtype = config.model.dtype
    if dtype == 'auto':  # what it will be there, not here
        dtype = 'float32' if devices[0].platform == 'cpu' else 'bfloat16'
    parallel = replace(config.parallel, strategy='mesh', num_devices=0)
    config = replace(config, model=replace(config.model, dtype=dtype), parallel=parallel)
    trainer = Trainer(config, devices)
    rows, by_rows = config.rows_per_step, trainer.devices.by_rows
    source, target = (
        jax.ShapeDtypeStruct((rows, slots), jnp.int32, sharding=by_rows)
        for slots in (config.data.source_length, config.data.target_length)
    )
    corpora = target if len(config.data.corpora) > 1 else None
    batch = Batch(source, target, source, target, source, target, corpora)
    key = jax.eval_shape(lambda: jax.random.key(0))
    key = jax.ShapeDtypeStruct(key.shape, key.dtype, sharding=trainer.devices.replicated)
    return Program(trainer.devices.mesh, trainer.shapes, batch, key, trainer.compiled_step)
