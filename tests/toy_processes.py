"""What the toy task computes in each way onto the devices of one process or several."""

from dataclasses import replace
from typing import Any

import jax
from jax.sharding import PartitionSpec
from toy_task import CircleConfig, CircleTask, Points, draw

from flax_transformer.engine.config import EngineConfig, ParallelConfig
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.trainer import Trainer

OPTIMIZER = replace(CircleConfig().optimizer, ema_decay=0.9)
WAYS = {
    'pmap': ParallelConfig('pmap'),
    'pmap in passes': ParallelConfig('pmap', max_tokens_per_device=4),
    'data': ParallelConfig('mesh'),
    'data in passes': ParallelConfig('mesh', max_tokens_per_device=4),
    'fsdp 2': ParallelConfig('mesh', fsdp=2),
    'fsdp 4': ParallelConfig('mesh', fsdp=4),
    'tensor 2': ParallelConfig('mesh', tensor=2),
    'tensor 4': ParallelConfig('mesh', tensor=4),
    'fsdp 2, tensor 2': ParallelConfig('mesh', fsdp=2, tensor=2),
}
INTERLEAVED = ', interleaved'  # after the name of a way: devices 0, 2, 4, ... and then 1, 3, 5, ...


class NoisyCircle(CircleTask):
    """Split like a model. Noise in place of dropout: it shows which random numbers a row meets."""

    sharding_rules = (('first', PartitionSpec('fsdp', 'tensor')), ('second', PartitionSpec('tensor')))

    def loss(self, params: Any, batch: Points, key: jax.Array | None) -> tuple[jax.Array, dict[str, jax.Array]]:
        if key is not None:
            batch = batch._replace(x=batch.x + 0.1 * jax.random.normal(key, batch.x.shape))
        return super().loss(params, batch, key)


def compute(way: str, devices: list[jax.Device]) -> dict[str, Any]:
    """A few steps, an evaluation and the parameters; and this process's rows of a batch."""
    name, is_interleaved, _ = way.partition(INTERLEAVED)
    if is_interleaved:
        devices = devices[::2] + devices[1::2]
    config = CircleConfig()
    engine = EngineConfig(OPTIMIZER, config.training, WAYS[name], config.seed)
    trainer = Trainer(NoisyCircle(config), engine, Devices(WAYS[name], devices))
    state, rows, losses = trainer.init_state(), trainer.devices.own_rows(config.rows), []
    for number in range(1, 5):
        state, sums = trainer.step(state, jax.tree.map(lambda x: x[rows], draw(number)))
        losses.append(float(sums['loss']))
    kept = trainer.devices.gather({'params': state.params, 'ema': state.ema})
    scores = trainer.evaluate(state.params, [draw(9)])
    return {'rows': rows.tolist(), 'losses': losses, 'scores': scores, **jax.tree.map(lambda x: x.tolist(), kept)}
