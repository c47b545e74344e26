"""Runs functions over batches of ids: which lines share one, few static shapes, one device or several."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec

from flax_transformer.common.errors import UserError
from flax_transformer.common.quiet import say
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.engine.config import ParallelConfig
from flax_transformer.engine.devices import multihost
from flax_transformer.engine.devices.devices import NO_MESH, Devices

Function = Callable[..., Any]  # (params, *arrays [B, ...]) -> a tree of [B, ...]

BUCKETS = DecodingConfig.buckets
_SIZES = (1, 8, 64)  # rows; a full batch has as many as batch_tokens allows


def bucket(length: int, buckets: Sequence[int] = BUCKETS) -> int:
    """The slots for a sentence of `length` tokens: a bucket, or for longer ones a multiple of the last."""
    last = buckets[-1]
    return next((slots for slots in buckets if length <= slots), -(-length // last) * last)


def filled(ids: Sequence[Sequence[int]], slots: int, pad_id: int) -> np.ndarray:
    """Ids as [N, slots] int32, padded."""
    out = np.full((len(ids), slots), pad_id, np.int32)
    for row, tokens in zip(out, ids, strict=True):
        row[: len(tokens)] = tokens
    return out


class Runner:
    """Maps pure functions over sentences in batches, on one device or on several, each with rows of its own."""

    def __init__(
        self,
        batch_tokens: int,
        max_slots: int,
        pad_id: int,
        parallel: ParallelConfig | None = None,
        *,
        max_positions: int | None = None,
        buckets: Sequence[int] = BUCKETS,
    ) -> None:
        """A line of text gets at most `max_slots`; longer sentences get one for each token, up to `max_positions`."""
        self.max_positions = max_positions
        self.buckets = buckets
        self.batch_tokens = batch_tokens
        self.max_slots = max_slots
        self.pad_id = pad_id
        # Each device holds the whole model; each of several processes uses one device.
        if multihost.count() > 1:
            self.devices = Devices(ParallelConfig(), jax.local_devices()[:1])
        else:
            self.devices = Devices(ParallelConfig('mesh', parallel.num_devices if parallel else 1))
        self.num_compilations = 0
        self._process = os.getpid()
        self._compiled: dict[Function, Function] = {}
        self._shapes: set[Any] = set()
        self._replicated: tuple[Any, Any] | None = None  # parameters, and their copies on every device

    def map(
        self,
        function: Function,
        params: Any,
        columns: Sequence[Sequence[Sequence[int]]],
        progress: Callable[[int], None] | None = None,
        *,
        last: Sequence[np.ndarray] = (),
    ) -> list[Any]:
        """The result of `function(params, *arrays)` for each sentence, a tree of NumPy arrays, in order.

        Args:
          columns: for each array, such as sources and targets, the ids of every sentence.
          progress: called with the number of sentences of each finished batch.
          last: more arrays [sentences, ...]; -1 in rows without a sentence.
        """
        if os.getpid() != self._process:  # it would wait for ever for threads that were not copied
            remedy = "start it by multiprocessing.get_context('spawn')"
            raise RuntimeError(f'this process was forked from one in which JAX runs; {remedy}')
        lengths = [max(map(len, row)) for row in zip(*columns, strict=True)]
        done: list[Any] = [None] * len(lengths)
        for chosen, rows, slots in self._plan(lengths):
            widths = [slots]
            for column in columns[1:]:
                # Tags alone, with which targets begin, need no more room.
                widths.append(1 if all(len(column[i]) == 1 for i in chosen) else self._slots(column, chosen))
            for i, result in self._batch(function, params, columns, chosen, rows, widths, last):
                done[i] = result
            if progress:
                progress(len(chosen))
        return done

    def shapes(self) -> list[tuple[int, int]]:
        """All (rows, slots) in which lines of text are translated."""
        reached = sorted({min(bucket(length, self.buckets), self.max_slots) for length in range(1, self.max_slots + 1)})
        return [(rows, slots) for slots in reached for rows in self.sizes(slots)]

    def slots(self, length: int) -> int:
        """The slots of a batch whose longest sentence has so many tokens."""
        return min(bucket(length, self.buckets), max(self.max_slots, length))

    def padded(self, ids: Sequence[Sequence[int]]) -> np.ndarray:
        """Ids as [B, S] int32; S is the bucket of the longest."""
        return filled(ids, self._slots(ids, range(len(ids))), self.pad_id)

    def sizes(self, slots: int) -> list[int]:
        """The numbers of rows that a batch with so many slots may have, ascending."""
        devices = len(self.devices)
        full = max(self.batch_tokens // slots // devices, 1) * devices
        return sorted({*(-(-size // devices) * devices for size in _SIZES if size < full), full})

    def _plan(self, lengths: Sequence[int]) -> Iterator[tuple[list[int], int, int]]:
        """(indices, rows, slots) of each batch of sentences with these lengths.

        Longest first: batches of similar lengths waste least, and the greatest need for memory shows at once. A bucket
        uses one size only, the smallest that holds all sentences left when it is first used, else the full one.
        """
        order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
        used: dict[int, int] = {}
        while order:
            slots = self.slots(lengths[order[0]])
            if slots not in used:
                *smaller, full = self.sizes(slots)
                used[slots] = next((rows for rows in smaller if len(order) <= rows), full)
            rows = used[slots]
            yield order[:rows], rows, slots
            order = order[rows:]

    def release(self) -> None:
        self._replicated = None

    def _slots(self, column: Sequence[Sequence[int]], chosen: Sequence[int]) -> int:
        slots = bucket(max((len(column[i]) for i in chosen), default=1), self.buckets)
        return slots if self.max_positions is None else min(slots, self.max_positions)

    def _batch(self, function, params, columns, chosen, rows, slots, last=()) -> list[tuple[int, Any]]:
        num_empty = rows - len(chosen)
        arrays = []
        for column, count in zip(columns, slots, strict=True):
            ids = [column[i] for i in chosen]
            arrays.append(filled([*ids, *[[]] * num_empty], count, self.pad_id))
        for array in last:
            nothing = np.full((num_empty, *array.shape[1:]), -1, array.dtype)
            arrays.append(np.concatenate([array[chosen], nothing]))

        try:
            result = self._call(function, params, arrays)
        except jax.errors.JaxRuntimeError as error:
            half = rows // 2 // len(self.devices) * len(self.devices)
            if 'RESOURCE_EXHAUSTED' not in str(error):
                raise
            if not half:
                remedy = 'lower decoding.beam_width or max_source_tokens'
                raise UserError(f'out of memory with a batch of {rows}; {remedy}') from None
            say(f'flax-transformer: out of memory with {rows} lines at once; going on with {half}')

            self.batch_tokens = half * slots[0]
            parts = [chosen[i : i + half] for i in range(0, len(chosen), half)]
            return [pair for part in parts for pair in self._batch(function, params, columns, part, half, slots, last)]

        return [(i, jax.tree.map(lambda x, row=row: x[row], result)) for row, i in enumerate(chosen)]

    def _call(self, function: Function, params: Any, arrays: Sequence[np.ndarray]) -> Any:
        shape = (id(function), *(array.shape for array in arrays))
        if shape not in self._shapes:
            self._shapes.add(shape)
            self.num_compilations += 1
        if len(self.devices) == 1:
            with jax.set_mesh(NO_MESH):  # the caller may have set one over more devices
                return jax.device_get(function(params, *arrays))
        if function not in self._compiled:
            rows = self.devices.by_rows.spec
            mesh = self.devices.mesh
            specs = (PartitionSpec(), *[rows] * len(arrays))
            self._compiled[function] = jax.jit(
                jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=rows, check_vma=False)
            )
        if self._replicated is None or self._replicated[0] is not params:
            self._replicated = (params, self.devices.put(params, self.devices.replicated))
        with jax.set_mesh(NO_MESH):
            return jax.device_get(self._compiled[function](self._replicated[1], *map(self.devices.split, arrays)))
