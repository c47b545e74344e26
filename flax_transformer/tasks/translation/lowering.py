"""The training step of a config, lowered for devices that need not be here: to be compiled, and looked at."""

from collections.abc import Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp

from flax_transformer.data.bitext.batches import Batch
from flax_transformer.engine.step import Trainer
from flax_transformer.tasks.translation.config import Config
from flax_transformer.transformer.blocks import compute_dtype


def with_dtype(config: Config, devices: Sequence[jax.Device] | None) -> Config:
    """The config with the type that `auto` stands for on these devices; None: on those of this process."""
    platform = (jax.devices() if devices is None else devices)[0].platform
    return replace(config, model=replace(config.model, dtype=compute_dtype(config.model, platform).name))


def lower(trainer: Trainer) -> jax.stages.Lowered:
    """The train step for batches of the config's shape, ready to be compiled; nothing is on any device."""
    config, num_devices = trainer.config, len(trainer.devices)
    rows: tuple[int, ...] = (config.rows_per_step,)
    if trainer.devices.strategy == 'pmap':
        rows = (num_devices, config.rows_per_step // num_devices)
    source, target = (
        jax.ShapeDtypeStruct((*rows, slots), jnp.int32)
        for slots in (config.data.source_length, config.data.target_length)
    )
    corpora = target if len(config.data.corpora) > 1 else None
    batch = Batch(source, target, source, target, source, target, corpora)
    return trainer.compiled_step.lower(trainer.shapes, batch, jax.eval_shape(lambda: jax.random.key(0)))
