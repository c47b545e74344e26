"""Runs functions over batches of ids: which lines share one, few static shapes, one device or several."""

import itertools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import PartitionSpec

from flax_transformer.common.cores import num_cores
from flax_transformer.common.errors import UserError
from flax_transformer.common.memory import give_memory_back
from flax_transformer.common.quiet import say
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.engine.config import ParallelConfig
from flax_transformer.engine.devices import multihost
from flax_transformer.engine.devices.devices import NO_MESH, Devices

from .kept import Kept

Function = Callable[..., Any]  # (params, *arrays [B, ...]) -> a tree of [B, ...]
Shapes = tuple[tuple[int, ...], ...]  # of the arrays
Key = tuple[Function, Shapes]  # identifies a program
Planned = tuple[list[int], int, int]  # indices of sentences, rows and slots of their batch

BUCKETS = DecodingConfig.buckets
_SIZES = (1, 8, 64)  # rows; a full batch has as many as batch_tokens allows
# On CPUs more rows gain nothing, but batches at once do, as products seldom keep all cores busy. Lines a second of a
# model 256 wide, two batches at once on two cores: 37, 55, 76, 80, 94, 94 at 1, 2, 4, 8, 16, 32 rows. One by one, of 64
# rows: 62 to 73. More cores were not measured.
_CPU_SIZES = (1, 4, 16)
_MOST_AT_ONCE = 8
_MOST_PROGRAMS = 64  # compiled by themselves; of more, those used longest ago are forgotten


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


class Program(NamedTuple):
    """A function for arrays of some shapes."""

    runner: 'Runner'
    function: Function
    params: Any
    shapes: Shapes

    @property
    def is_ready(self) -> bool:
        return self.runner.has_compiled(self.function, self.shapes)

    @property
    def key(self) -> Key:
        return self.function, self.shapes

    def compile(self, among: Sequence['Program'] = ()) -> None:
        """Compiles it unless it is ready; the programs `among` which a batch needs it are not forgotten for it."""
        self.runner.compile(self.function, self.params, self.shapes, keep=[program.key for program in among])


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
        settings: str = '',
    ) -> None:
        """A line of text gets at most `max_slots`, a longer sentence at most `max_positions`; settings: see `Kept`."""
        self._settings = settings
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
        self._is_cpu = len(self.devices) == 1 and self.devices.devices[0].platform == 'cpu'
        self._at_once = min(_MOST_AT_ONCE, num_cores()) if self._is_cpu else 1
        self.num_compilations = 0
        self._process = os.getpid()
        self.most_programs = _MOST_PROGRAMS
        self.usual: frozenset[Key] = frozenset()  # programs that are not counted, nor forgotten
        self._compiled: OrderedDict[Key, Function] = OrderedDict()  # by `compile`, used last last
        self._jitted: dict[Function, Kept] = {}
        self._shapes: set[Any] = set()
        self._lock = threading.Lock()
        self._first_calls = threading.Lock()
        self._replicated: tuple[Any, Any] | None = None  # parameters, and their copies on every device

    def map(
        self,
        function: Function,
        params: Any,
        columns: Sequence[Sequence[Sequence[int]]],
        progress: Callable[[int], None] | None = None,
        *,
        last: Sequence[np.ndarray] = (),
        is_step: bool = False,
    ) -> list[Any]:
        """The result of `function(params, *arrays)` for each sentence, a tree of NumPy arrays, in order.

        Args:
          columns: for each array, such as sources and targets, the ids of every sentence.
          progress: called with the number of sentences of each finished batch.
          last: more arrays [sentences, ...], which are rare; -1 in rows without a sentence.
          is_step: the function has all tokens at once, in products that keep cores busy.
        """
        if os.getpid() != self._process:  # it would wait for ever for threads that were not copied
            remedy = "start it by multiprocessing.get_context('spawn')"
            raise RuntimeError(f'this process was forked from one in which JAX runs; {remedy}')
        lengths = [max(map(len, row)) for row in zip(*columns, strict=True)]
        done: list[Any] = [None] * len(lengths)
        run = partial(self.run, function, params, columns, last=last)
        for results in self._run_each(run, list(self._plan(lengths, is_rare=bool(last), is_step=is_step))):
            for i, result in results:
                done[i] = result
            if progress:
                progress(len(results))
        return done

    def run(
        self,
        function: Function,
        params: Any,
        columns: Sequence[Sequence[Sequence[int]]],
        batch: Planned,
        *,
        last: Sequence[np.ndarray] = (),
    ) -> list[tuple[int, Any]]:
        """The results for one batch of the sentences of `map`, with their indices."""
        chosen, rows, slots = batch
        widths = [slots]
        for column in columns[1:]:
            # Tags alone, with which targets begin, need no more room.
            widths.append(1 if all(len(column[i]) == 1 for i in chosen) else self._slots(column, chosen))
        return self._batch(function, params, columns, chosen, rows, widths, last)

    def _run_each(self, run: Callable[[Planned], Any], batches: Sequence[Planned]) -> Iterator[Any]:
        """What `run` returns for each batch, in order, some of them at once."""
        for number, group in itertools.groupby(batches, key=lambda batch: self._number_at_once(*batch[1:])):
            some = list(group)
            if min(number, len(some)) == 1:
                yield from map(run, some)
                continue
            with ThreadPoolExecutor(number) as threads:
                yield from threads.map(run, some)

    def _number_at_once(self, rows: int, slots: int) -> int:
        """How many batches run at once, which have `batch_tokens` together."""
        return max(min(self._at_once, self.batch_tokens // (rows * slots)), 1)

    def shapes(self) -> list[tuple[int, int]]:
        """All (rows, slots) in which lines of text are translated."""
        reached = sorted({min(bucket(length, self.buckets), self.max_slots) for length in range(1, self.max_slots + 1)})
        return [(rows, slots) for slots in reached for rows in self.sizes(slots)]

    def slots(self, length: int) -> int:
        """The slots of a batch whose longest sentence has so many tokens."""
        slots = bucket(length, self.buckets)
        if length <= self.max_slots:
            return min(slots, self.max_slots)
        return slots if self.max_positions is None else min(slots, self.max_positions)

    def padded(self, ids: Sequence[Sequence[int]]) -> np.ndarray:
        """Ids as [B, S] int32; S is the bucket of the longest."""
        return filled(ids, self._slots(ids, range(len(ids))), self.pad_id)

    def sizes(self, slots: int) -> list[int]:
        """The numbers of rows that a batch with so many slots may have, ascending."""
        devices = len(self.devices)
        full = max(self.batch_tokens // slots // devices, 1) * devices
        if self._is_cpu:
            return sorted({min(size, full) for size in _CPU_SIZES})
        return sorted({*(-(-size // devices) * devices for size in _SIZES if size < full), full})

    def rows_for(self, count: int, slots: int, *, is_rare: bool = False, is_step: bool = False) -> int:
        """The rows of the batches in which so many sentences are run."""
        sizes = self.sizes(slots)
        if is_rare:  # each size is one more program to compile
            sizes = [sizes[0], sizes[-1]]
        if is_step:
            return next((rows for rows in self.sizes_of_steps(slots) if count <= self._at_once * rows), sizes[-1])
        if self._at_once > 1:  # the largest size that makes more than one batch
            return max((rows for rows in sizes if rows < count), default=sizes[0])
        return next((rows for rows in sizes if count <= rows), sizes[-1])

    def sizes_of_steps(self, slots: int) -> list[int]:
        """The numbers of rows where a function has all tokens at once: a single row is as slow as several."""
        sizes = self.sizes(slots)
        return [rows for rows in sizes if rows > 1] or sizes

    def most(self, slots: int) -> int:
        """How many sentences are run at once."""
        full = self.sizes(slots)[-1]
        return full * self._number_at_once(full, slots)

    def _plan(self, lengths: Sequence[int], **kind: bool) -> Iterator[Planned]:
        """The batches of sentences with these lengths.

        Longest first: batches of similar lengths waste least, and the greatest need for memory shows at once. A bucket
        uses one size only, that for all sentences left when it is first used.
        """
        order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
        used: dict[int, int] = {}
        while order:
            slots = self.slots(lengths[order[0]])
            if slots not in used:
                used[slots] = self.rows_for(len(order), slots, **kind)
            rows = used[slots]
            yield order[:rows], rows, slots
            order = order[rows:]

    def release(self) -> None:
        self._replicated = None

    def _slots(self, column: Sequence[Sequence[int]], chosen: Sequence[int]) -> int:
        return self.slots(max((len(column[i]) for i in chosen), default=1))

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

    def has_compiled(self, function: Function, shapes: Shapes) -> bool:
        return (function, shapes) in self._compiled

    def compile(self, function: Function, params: Any, shapes: Shapes, *, keep: Collection[Key] = ()) -> None:
        """Compiles a function for arrays of ids of these shapes, by itself: what is forgotten leaves memory.

        Beyond `most_programs`, unusual ones are forgotten, longest unused first, but none of `keep`. For servers: what
        other code has jitted is traced anew when it is next called.
        """
        if self.has_compiled(function, shapes):
            return
        params, arrays = self._placed(params, [np.zeros(shape, np.int32) for shape in shapes])
        with jax.set_mesh(NO_MESH):
            program = self._jit(function, len(shapes)).compiled(params, *arrays)
        with self._lock:
            self._compiled[function, shapes] = program
            unusual = [key for key in self._compiled if key not in self.usual]
            for key in unusual[: max(len(unusual) - self.most_programs, 0)]:
                if key not in keep:
                    del self._compiled[key]
            self._jitted.clear()
        # Some 40 MB are one program's; JAX keeps up to 10 MB more of how each was made, even of one that is dropped.
        jax.clear_caches()
        give_memory_back()

    def _call(self, function: Function, params: Any, arrays: Sequence[np.ndarray]) -> Any:
        key = function, tuple(array.shape for array in arrays)
        if key not in self._shapes:
            with self._first_calls:  # two threads would compile the same
                if key not in self._shapes:
                    self.num_compilations += 1
                    result = self._call_compiled(function, params, arrays, key)
                    self._shapes.add(key)
                    return result
        return self._call_compiled(function, params, arrays, key)

    def _call_compiled(self, function: Function, params: Any, arrays: Sequence[np.ndarray], key: Any) -> Any:
        with self._lock:
            program = self._compiled.get(key)
            if program:
                self._compiled.move_to_end(key)
        if not program:
            program = self._jitted.get(function) or self._jit(function, len(arrays))
            self._jitted[function] = program
        params, arrays = self._placed(params, arrays)
        with jax.set_mesh(NO_MESH):  # the caller may have set one over more devices
            return jax.device_get(program(params, *arrays))

    def _jit(self, function: Function, num_arrays: int) -> Kept:
        if len(self.devices) == 1:
            return Kept(function, self._settings and f'{function.__name__} {self._settings}')
        rows = self.devices.by_rows.spec
        specs = (PartitionSpec(), *[rows] * num_arrays)
        mapped = jax.shard_map(function, mesh=self.devices.mesh, in_specs=specs, out_specs=rows, check_vma=False)
        return Kept(mapped, settings='')

    def _placed(self, params: Any, arrays: Sequence[np.ndarray]) -> tuple[Any, Sequence[Any]]:
        if len(self.devices) == 1:
            return params, arrays
        if self._replicated is None or self._replicated[0] is not params:
            self._replicated = (params, self.devices.put(params, self.devices.replicated))
        return self._replicated[1], list(map(self.devices.split, arrays))
