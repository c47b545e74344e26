"""One pure step on many devices, by pmap or by jit over a mesh. The state is never stacked, so checkpoints fit both.

A step is `step(state, batch, *rest, axis_name=None)`. It sums over its part of the batch and, given axis_name, adds
the sums of all devices with psum. Batches are trees of [rows, ...]; rows are split over the devices.
"""

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from flax_transformer.common.errors import UserError
from flax_transformer.engine.config.parallel import ParallelConfig
from flax_transformer.engine.devices import multihost
from flax_transformer.engine.devices.sharding import AXES, ROWS, Rules, state_shardings

AXIS = 'data'


def prepare_devices(num_devices: int) -> None:
    """Has JAX simulate `num_devices` CPU devices in this process; only possible before it initializes its back end."""
    if num_devices > 1:
        # No effect if the default back end is an accelerator. If the back end is already up it is too late, which
        # `get_devices` reports.
        with contextlib.suppress(RuntimeError):
            jax.config.update('jax_num_cpu_devices', num_devices)


def get_devices(config: ParallelConfig) -> list[jax.Device]:
    """The devices to run on. Raises UserError if there are fewer than the config asks for."""
    devices = jax.devices()
    if multihost.count() > 1:
        if config.num_devices not in (0, len(devices)):
            raise UserError(
                f'parallel.num_devices={config.num_devices}: {multihost.count()} processes have {len(devices)} devices '
                'in total and use all of them; leave it out'
            )
        return devices
    wanted = config.num_devices or (config.least_devices if devices[0].platform == 'cpu' else len(devices))
    if wanted > len(devices):
        raise UserError(
            f'parallel.num_devices={wanted}: this process sees {len(devices)} {devices[0].platform} device(s); '
            'ask for fewer (CPU devices can be simulated only before JAX starts: set JAX_NUM_CPU_DEVICES)'
        )
    return devices[:wanted]


class Devices:
    """Places data on the devices of a config and compiles steps for them."""

    def __init__(self, config: ParallelConfig, devices: Sequence[jax.Device] | None = None) -> None:
        """Uses `devices`, which need not be present to compile for them; None: those that the config asks for."""
        self.strategy = config.strategy
        self.devices = get_devices(config) if devices is None else list(devices)
        shape = _mesh_shape(config, len(self.devices))
        self.mesh = jax.make_mesh(shape, AXES, axis_types=(AxisType.Auto,) * len(AXES), devices=self.devices)
        replicas = self.mesh
        if self.strategy == 'pmap':
            # Matches pmap's output sharding, or the first step would compile twice.
            replicas = jax.make_mesh((len(self.devices),), (AXIS,), axis_types=(AxisType.Auto,), devices=self.devices)
        self.replicated = NamedSharding(replicas, PartitionSpec())
        self.by_rows = NamedSharding(self.mesh, ROWS)

    def __len__(self) -> int:
        return len(self.devices)

    def __str__(self) -> str:
        name = f'{len(self)} {self.devices[0].platform} device{"s" * (len(self) > 1)} by {self.strategy}'
        data, fsdp, tensor = self.mesh.shape.values()
        if multihost.count() > 1:
            name += f' in {multihost.count()} processes'
        return f'{name} (data {data}, fsdp {fsdp}, tensor {tensor})' if fsdp * tensor > 1 else name

    @property
    def num_row_parts(self) -> int:
        """The number of parts that rows are split into; devices along the tensor axis share one."""
        return len(self) // self.mesh.shape['tensor']

    @property
    def row_parts_per_step(self) -> int:
        """How many of these parts one call of a step sees: under pmap, its device's own; on a mesh, all."""
        return 1 if self.strategy == 'pmap' else self.num_row_parts

    def check_rows(self, rows: int) -> None:
        """Raises UserError if a batch of `rows` rows cannot be split evenly."""
        if rows % self.num_row_parts:
            raise UserError(
                f'a batch has {rows} rows, which do not divide among {self.num_row_parts} devices; change the size of '
                'the batch or parallel.num_devices'
            )

    def shardings(self, state: Any, rules: Rules) -> Any:
        """The sharding of each leaf of a TrainState (arrays or shapes): by rule on a mesh, replicated under pmap."""
        if self.strategy == 'pmap':
            return jax.tree.map(lambda _: self.replicated, state)
        return state_shardings(state, state.params, self.mesh, rules)

    def own_rows(self, rows: int) -> slice:
        """Which of a batch's rows are on this process's devices: all, if it is the only process.

        Raises UserError if they are not contiguous.
        """
        if multihost.count() == 1:
            return slice(0, rows)
        if self.strategy == 'pmap':
            share = rows // multihost.count()
            return slice(multihost.number() * share, (multihost.number() + 1) * share)
        parts = {each[0].indices(rows)[:2] for each in self.by_rows.addressable_devices_indices_map((rows,)).values()}
        first, last = min(part[0] for part in parts), max(part[1] for part in parts)
        if sum(end - begin for begin, end in parts) != last - first:
            raise UserError(
                f'the rows of process {multihost.number()} are not contiguous on this mesh; give each host a whole '
                'number of fsdp x tensor groups'
            )
        return slice(first, last)

    def replicate(self, tree: Any) -> Any:
        """The tree with a whole copy on every device."""
        return self.place(tree, self.replicated)

    def place(self, tree: Any, shardings: Any) -> Any:
        """The tree placed by `shardings`; with several processes, each must pass the whole tree."""
        if multihost.count() == 1:
            return jax.device_put(tree, shardings)
        if isinstance(shardings, NamedSharding):
            shardings = jax.tree.map(lambda _: shardings, tree)

        def cut(x: Any, sharding: NamedSharding) -> jax.Array:
            return jax.make_array_from_callback(np.shape(x), sharding, lambda index: np.asarray(x)[index])

        return jax.tree.map(cut, tree, shardings)

    def gather(self, tree: Any) -> Any:
        """The whole tree on this process's first device; all processes must call it."""
        if multihost.count() == 1:
            return jax.device_put(tree, self.devices[0])
        whole = jax.jit(lambda tree: tree, out_shardings=self.replicated)(self.as_global(tree))
        return jax.tree.map(lambda x: x.addressable_data(0), whole)

    def as_global(self, tree: Any) -> Any:
        """pmap's results, which each of several processes holds for itself, as arrays that span all processes."""
        if multihost.count() == 1 or self.strategy != 'pmap':
            return tree

        def join(x: jax.Array) -> jax.Array:
            parts = [shard.data for shard in x.addressable_shards]
            return jax.make_array_from_single_device_arrays(x.shape, self.replicated, parts)

        return jax.tree.map(join, tree)

    def split(self, batch: Any, rows: int | None = None) -> Any:
        """The batch with its rows split over the devices.

        Each process passes the whole batch or, if `rows` gives the total number of rows, only its own rows.
        """
        if multihost.count() == 1:
            if self.strategy == 'pmap':
                return jax.tree.map(lambda x: x.reshape(len(self), -1, *np.shape(x)[1:]), batch)
            return jax.device_put(batch, self.by_rows)
        if rows is None:
            rows = len(jax.tree.leaves(batch)[0])
            batch = jax.tree.map(lambda x: x[self.own_rows(rows)], batch)
        if self.strategy == 'pmap':
            here = len(jax.local_devices())
            return jax.tree.map(lambda x: x.reshape(here, -1, *np.shape(x)[1:]), batch)
        place = lambda x: jax.make_array_from_process_local_data(self.by_rows, x, (rows, *np.shape(x)[1:]))
        return jax.tree.map(place, batch)

    def compile(self, step: Callable, *, state: Any = None, result: Any = None, donate_state: bool = False) -> Callable:
        """`step(state, batch, key)` over all devices; `donate_state` reuses the old state's memory.

        Args:
          state, result: their shardings; None: a whole copy on every device.
        """
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
        state, result = (self.replicated if each is None else each for each in (state, result))
        shardings = (state, self.by_rows, self.replicated)
        return jax.jit(step, in_shardings=shardings, out_shardings=result, donate_argnums=donate)


def _mesh_shape(config: ParallelConfig, num_devices: int) -> tuple[int, int, int]:
    """Devices along data, fsdp and tensor. Raises UserError if that is not all of them."""
    cut = config.fsdp * config.tensor
    data = config.data or num_devices // cut
    if data * cut != num_devices:
        raise UserError(
            f'parallel.data={config.data}, fsdp={config.fsdp}, tensor={config.tensor}: a mesh of {max(data, 1) * cut} '
            f'devices, but there are {num_devices}; change one of them, or num_devices'
        )
    return data, config.fsdp, config.tensor
