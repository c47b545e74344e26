"""One pure step on many devices: by jit of shard_map (strategy pmap), or by jit over a mesh (strategy mesh).

The state is never stacked, so checkpoints fit both. A step is `step(state, batch, *rest, axis_name=None)`: it sums over
its part of the batch, a tree of [rows, ...], and, given axis_name, adds the sums of all devices with psum.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from flax_transformer.common.errors import UserError, nearest
from flax_transformer.common.installing import install_command
from flax_transformer.engine.config import ParallelConfig

from . import multihost
from .sharding import AXES, DATA, ROWS, Rules, in_process_order, lay_out, state_shardings

_EXTRAS = {'cuda': 'cuda13', 'gpu': 'cuda13', 'tpu': 'tpu'}  # JAX's name of a platform: our extra
_KNOWN = ('cpu', 'cuda', 'gpu', 'rocm', 'tpu')
NO_MESH = Mesh(np.empty((), object), ())


def get_devices(config: ParallelConfig) -> list[jax.Device]:
    devices = jax.devices()
    if multihost.count() > 1:
        if config.num_devices not in (0, len(devices)):
            raise UserError(
                f'parallel.num_devices={config.num_devices}: {multihost.count()} processes use all of their '
                f'{len(devices)} devices; leave it out'
            )
        return devices
    wanted = config.num_devices or (config.least_devices if devices[0].platform == 'cpu' else len(devices))
    if wanted > len(devices):
        raise UserError(
            f'parallel.num_devices={wanted}: this process sees {len(devices)} {devices[0].platform} device(s); ask for '
            'fewer (JAX_NUM_CPU_DEVICES simulates some)'
        )
    return devices[:wanted]


def jit_alone(function: Callable) -> Callable:
    """The function, compiled, whatever mesh and promotion of types the caller has set."""
    compiled = jax.jit(jax.numpy_dtype_promotion('standard')(function))

    def call(*args: Any) -> Any:
        with jax.set_mesh(NO_MESH):  # the caller's may have more devices than the arguments are on
            return compiled(*args)

    return call


class Devices:
    """Places data on the devices of a config and compiles steps for them."""

    def __init__(self, config: ParallelConfig, devices: Sequence[jax.Device] | None = None) -> None:
        """Uses `devices`, which need not be present; None: those that the config asks for."""
        self.strategy = config.strategy
        self.devices = get_devices(config) if devices is None else list(devices)
        shape = _mesh_shape(config, len(self.devices))
        if self.strategy == 'pmap':
            self.devices = in_process_order(self.devices)
            layout = np.array(self.devices, object).reshape(shape)
        else:
            layout = lay_out(self.devices, shape)
        self.mesh = Mesh(layout, AXES, axis_types=(AxisType.Auto,) * len(AXES))
        self.replicated = NamedSharding(self.mesh, PartitionSpec())  # a whole copy on every device
        self.by_rows = NamedSharding(self.mesh, ROWS)

    def __len__(self) -> int:
        return len(self.devices)

    def __str__(self) -> str:
        by = 'jit(shard_map)' if self.strategy == 'pmap' else 'jit over a mesh'
        name = f'{len(self)} {self.devices[0].platform} device{"s" * (len(self) > 1)} by {by}'
        if multihost.count() > 1:
            name += f' in {multihost.count()} processes'
        data, fsdp, tensor = self.mesh.shape.values()
        if fsdp * tensor > 1:
            name += f' (data {data}, fsdp {fsdp}, tensor {tensor})'
        return name

    @property
    def num_row_parts(self) -> int:
        """The number of parts that rows are split into; devices along the tensor axis share one."""
        return len(self) // self.mesh.shape['tensor']

    @property
    def row_parts_per_step(self) -> int:
        """The number of parts that one call of a step sees: under pmap, its device's own; on a mesh, all."""
        return 1 if self.strategy == 'pmap' else self.num_row_parts

    def check_rows(self, rows: int) -> None:
        if rows % self.num_row_parts:
            raise UserError(
                f'a batch has {rows} rows, which cannot be split into {self.num_row_parts} equal parts (devices / '
                'parallel.tensor); change the size of the batch or parallel.num_devices'
            )

    def shardings(self, state: Any, rules: Rules) -> Any:
        """The sharding of each leaf of a TrainState: by rule on a mesh, replicated under pmap."""
        if self.strategy == 'pmap':
            return jax.tree.map(lambda _: self.replicated, state)
        return state_shardings(state, state.params, self.mesh, rules)

    def own_rows(self, rows: int) -> np.ndarray:
        """The numbers, ascending, of a batch's rows on this process's devices.

        They need not be consecutive; processes that share a tensor group hold the same rows.
        """
        self.check_rows(rows)
        if multihost.count() == 1:
            return np.arange(rows)
        # Not multihost.number(): TPUs number processes by where they are in the slice.
        number = jax.process_index()
        is_own = np.vectorize(lambda device: device.process_index == number, otypes=[bool])(self.mesh.devices)
        has_part = is_own.any(axis=2).reshape(-1)  # [data * fsdp]
        return np.flatnonzero(np.repeat(has_part, rows // len(has_part)))

    def put(self, tree: Any, shardings: Any) -> Any:
        """The tree on the devices, by `shardings`; each process must pass the whole tree."""
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
        whole = jax.jit(lambda tree: tree, out_shardings=self.replicated)(tree)
        return jax.tree.map(lambda x: x.addressable_data(0), whole)

    def split(self, batch: Any, rows: int | None = None) -> Any:
        """The batch over the devices: each process passes all of it or, of a total of `rows`, only its `own_rows`."""
        if rows is None or multihost.count() == 1:
            return self.put(batch, self.by_rows)
        own = self.own_rows(rows)

        def cut(x: np.ndarray, index: tuple[slice, ...]) -> np.ndarray:
            first, end, _ = index[0].indices(rows)  # a device's rows are consecutive among this process's, too
            begin = int(np.searchsorted(own, first))
            return x[begin : begin + end - first]

        def put(x: np.ndarray) -> jax.Array:
            return jax.make_array_from_callback((rows, *np.shape(x)[1:]), self.by_rows, partial(cut, x))

        return jax.tree.map(put, batch)

    def compile(self, step: Callable, *, state: Any = None, result: Any = None, donate_state: bool = False) -> Callable:
        """`step(state, batch, rest)` over all devices; `state` and `result` are shardings, None: whole copies.

        Every device has the whole of `rest`, a key or a tree of arrays.
        """
        step = jax.numpy_dtype_promotion('standard')(step)  # optax multiplies integers by floats
        settings = {
            'in_shardings': (self.replicated if state is None else state, self.by_rows, self.replicated),
            'out_shardings': self.replicated if result is None else result,
            'donate_argnums': (0,) if donate_state else (),
        }
        if self.strategy == 'pmap':
            # jax.pmap would rewrap each array of the state in Python at every step. Its sums are explicit, as here.
            specs = {'in_specs': (PartitionSpec(), ROWS, PartitionSpec()), 'out_specs': PartitionSpec()}
            step = jax.shard_map(partial(step, axis_name=DATA), mesh=self.mesh, check_vma=False, **specs)
            return jax.jit(step, **settings)

        def step_on_mesh(*args: Any) -> Any:
            # The step has sharding constraints of its own.
            with jax.sharding.use_abstract_mesh(self.mesh.abstract_mesh):
                return step(*args)

        return jax.jit(step_on_mesh, **settings)


def _mesh_shape(config: ParallelConfig, num_devices: int) -> tuple[int, int, int]:
    cut = config.fsdp * config.tensor
    data = config.data or num_devices // cut
    if data * cut != num_devices:
        raise UserError(
            f'parallel.data={config.data}, fsdp={config.fsdp}, tensor={config.tensor}: a mesh of {max(data, 1) * cut} '
            f'devices, but there are {num_devices}; change one of them, or num_devices'
        )
    return data, config.fsdp, config.tensor


def missing_platform() -> str | None:
    """What is wrong with JAX_PLATFORMS, and what to do, if JAX cannot start with it; else None."""
    asked = jax.config.jax_platforms
    if not asked:
        return None
    try:
        jax.devices()
        return None
    except Exception:  # JAX's errors differ by platform
        names = [name for name in asked.split(',') if name and name != 'cpu']
    for name in names:
        if name not in _KNOWN:
            hint = nearest(name, _KNOWN)
            return f'JAX_PLATFORMS={asked}: expected {", ".join(_KNOWN)}, or several of them with commas.{hint}'
    extra = next((_EXTRAS[name] for name in names if name in _EXTRAS), None)
    remedy = "install that platform's plugin for JAX"
    if extra is not None:
        remedy = f'see to its driver, or install what JAX needs: {install_command(extra)}'
    return f'JAX_PLATFORMS={asked}: JAX finds no such device here; unset it, or {remedy}'
