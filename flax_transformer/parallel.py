"""One pure step on many devices, by pmap or by jit over a mesh. The state is never stacked: one checkpoint format.

A step is `step(state, batch, *rest, axis_name=None)`. It sums over its part of the batch; where axis_name is given
it adds the sums of all devices with psum. Batches are trees of [rows, ...]; rows are dealt out to the devices.
"""

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from flax_transformer.config import ParallelConfig
from flax_transformer.errors import UserError

AXIS = 'data'


def prepare_devices(num_devices: int) -> None:
    """Makes room for `num_devices` simulated CPU devices; only possible before JAX touches its devices."""
    if num_devices > 1:
        # Without effect where the default back end is an accelerator. Too late where the back end is up already:
        # `get_devices` says what that means.
        with contextlib.suppress(RuntimeError):
            jax.config.update('jax_num_cpu_devices', num_devices)


def get_devices(config: ParallelConfig) -> list[jax.Device]:
    """The devices to run on. Raises UserError where there are fewer than the config asks for."""
    devices = jax.devices()
    wanted = config.num_devices or (1 if devices[0].platform == 'cpu' else len(devices))
    if wanted > len(devices):
        raise UserError(
            f'parallel.num_devices={wanted}: this process sees {len(devices)} {devices[0].platform} device(s); '
            'ask for fewer (CPU devices can be simulated only before JAX starts: set JAX_NUM_CPU_DEVICES)'
        )
    return devices[:wanted]


class Devices:
    """Places data on the devices of a config and compiles steps for them."""

    def __init__(self, config: ParallelConfig) -> None:
        self.strategy = config.strategy
        self.devices = get_devices(config)
        self.mesh = jax.make_mesh((len(self.devices),), (AXIS,), axis_types=(AxisType.Auto,), devices=self.devices)
        self._replicated = NamedSharding(self.mesh, PartitionSpec())
        self._by_rows = NamedSharding(self.mesh, PartitionSpec(AXIS))

    def __len__(self) -> int:
        return len(self.devices)

    @property
    def num_parts(self) -> int:
        """Of how many devices a step sees the rows: under pmap each device runs its own, a mesh one for all."""
        return 1 if self.strategy == 'pmap' else len(self)

    def __str__(self) -> str:
        return f'{len(self)} {self.devices[0].platform} device{"s" * (len(self) > 1)} by {self.strategy}'

    def check_rows(self, rows: int) -> None:
        """Raises UserError where a batch of so many rows cannot be dealt out evenly."""
        if rows % len(self):
            raise UserError(
                f'a batch has {rows} rows (training.tokens_per_step / data.target_length), which do not divide among '
                f'{len(self)} devices; change tokens_per_step or num_devices'
            )

    def replicate(self, tree: Any) -> Any:
        """The tree, whole on every device."""
        return jax.device_put(tree, self._replicated)

    def gather(self, tree: Any) -> Any:
        """A replicated tree on the first device alone."""
        return jax.device_put(tree, self.devices[0])

    def split(self, batch: Any) -> Any:
        """The batch with its rows dealt out to the devices."""
        if self.strategy == 'pmap':
            return jax.tree.map(lambda x: x.reshape(len(self), -1, *np.shape(x)[1:]), batch)
        return jax.device_put(batch, self._by_rows)

    def compile(self, step: Callable, *, donate_state: bool = False) -> Callable:
        """`step(state, batch, key)` over all devices; with donate_state the old state's memory is reused."""
        donate = (0,) if donate_state else ()
        if self.strategy == 'pmap':
            return jax.pmap(
                partial(step, axis_name=AXIS),
                axis_name=AXIS,
                in_axes=(None, 0, None),
                out_axes=None,
                donate_argnums=donate,
                devices=self.devices,
            )
        shardings = (self._replicated, self._by_rows, self._replicated)
        return jax.jit(step, in_shardings=shardings, out_shardings=self._replicated, donate_argnums=donate)
