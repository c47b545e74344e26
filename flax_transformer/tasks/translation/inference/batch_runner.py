"""Runs functions over batches of ids: static shapes, one device or several, smaller batches when memory runs out."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec

from flax_transformer.common.quiet import is_quiet
from flax_transformer.engine.config import ParallelConfig
from flax_transformer.engine.devices import multihost as processes
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.tasks.translation.inference.batching import bucket, plan

Function = Callable[..., Any]  # (params, *arrays [B, ...]) -> a tree of [B, ...]


class Runner:
    """Maps pure functions over sentences in batches, on one device or on several by pmap or a mesh.

    Each device works on its own rows; nothing is exchanged between them.
    """

    def __init__(
        self,
        batch_tokens: int,
        max_slots: int,
        pad_id: int,
        parallel: ParallelConfig | None = None,
        *,
        max_positions: int | None = None,
    ) -> None:
        """
        Args:
          max_slots: of a line of text; longer sentences get a slot for each token.
          max_positions: most slots that the functions take; None: any number.
        """
        self.max_positions = max_positions
        self.batch_tokens, self.max_slots, self.pad_id = batch_tokens, max_slots, pad_id
        # Each device has the whole model, whatever the mesh in training; each of several processes uses one device.
        if processes.count() > 1:
            self.devices = Devices(ParallelConfig(), jax.local_devices()[:1])
        elif parallel:
            self.devices = Devices(ParallelConfig(parallel.strategy, parallel.num_devices))
        else:
            self.devices = Devices(ParallelConfig(num_devices=1))
        self.num_compilations = 0
        self._compiled: dict[Function, Function] = {}
        self._shapes: set[Any] = set()
        self._placed: tuple[Any, Any] | None = None  # parameters, and their copies on every device

    def map(
        self,
        function: Function,
        params: Any,
        columns: Sequence[Sequence[Sequence[int]]],
        progress: Callable[[int], None] | None = None,
    ) -> list[Any]:
        """The result of `function(params, *arrays)` for each sentence, a tree of NumPy arrays, in order.

        Args:
          columns: for each array, such as sources and targets, the ids of every sentence.
          progress: called with the number of sentences of each finished batch.
        """
        lengths = [max(map(len, row)) for row in zip(*columns, strict=True)]
        done: list[Any] = [None] * len(lengths)
        for chosen, rows, slots in plan(lengths, self.max_slots, self.batch_tokens, len(self.devices)):
            rest = [self._slots(column, chosen) for column in columns[1:]]
            for i, result in self._batch(function, params, columns, chosen, rows, [slots, *rest]):
                done[i] = result
            if progress:
                progress(len(chosen))
        return done

    def release(self) -> None:
        """Drops the copies of the last parameters, which are kept for the next lines."""
        self._placed = None

    def _slots(self, column: Sequence[Sequence[int]], chosen: Sequence[int]) -> int:
        slots = bucket(max(len(column[i]) for i in chosen))
        return slots if self.max_positions is None else min(slots, self.max_positions)

    def _batch(self, function, params, columns, chosen, rows, slots) -> list[tuple[int, Any]]:
        arrays = [np.full((rows, n), self.pad_id, np.int32) for n in slots]
        for array, column in zip(arrays, columns, strict=True):
            for row, i in enumerate(chosen):
                array[row, : len(column[i])] = column[i]
        try:
            result = self._call(function, params, arrays)
        except jax.errors.JaxRuntimeError as error:
            half = rows // 2 // len(self.devices) * len(self.devices)
            if 'RESOURCE_EXHAUSTED' not in str(error) or not half:
                raise
            if not is_quiet():
                found = f'out of memory with {rows} lines at once'
                print(f'flax-transformer: {found}; going on with {half}', file=sys.stderr)
            self.batch_tokens = half * slots[0]
            parts = [chosen[i : i + half] for i in range(0, len(chosen), half)]
            return [pair for part in parts for pair in self._batch(function, params, columns, part, half, slots)]
        return [(i, jax.tree.map(lambda x, row=row: x[row], result)) for row, i in enumerate(chosen)]

    def _call(self, function: Function, params: Any, arrays: Sequence[np.ndarray]) -> Any:
        """A tree of NumPy arrays [B, ...]."""
        shape = (id(function), *(array.shape for array in arrays))
        if shape not in self._shapes:
            self._shapes.add(shape)
            self.num_compilations += 1
        if len(self.devices) == 1:
            return jax.device_get(function(params, *arrays))
        if function not in self._compiled:
            self._compiled[function] = self._on_all(function, len(arrays))
        placed = self._compiled[function](self._everywhere(params), *map(self.devices.split, arrays))
        result = jax.device_get(placed)
        if self.devices.strategy == 'pmap':
            result = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), result)
        return result

    def _on_all(self, function: Function, num_arrays: int) -> Function:
        if self.devices.strategy == 'pmap':
            return self.devices.pmap(function, in_axes=(None, *[0] * num_arrays))
        rows = self.devices.by_rows.spec
        specs = (PartitionSpec(), *[rows] * num_arrays)
        return jax.jit(jax.shard_map(function, mesh=self.devices.mesh, in_specs=specs, out_specs=rows, check_vma=False))

    def _everywhere(self, params: Any) -> Any:
        if self._placed is None or self._placed[0] is not params:
            self._placed = (params, self.devices.replicate(params))
        return self._placed[1]
