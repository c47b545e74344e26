"""Blocks planned ahead by other processes.

Workers are spawned: a fork of a process in which JAX has threads may hang. A signal that a terminal sends to all leaves
them at work, since the trainer needs batches to end its step; they end with the pipe that this process holds.
"""

import contextlib
import gc
import multiprocessing
import os
import pickle
import sys
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from types import ModuleType

from flax_transformer.common.cores import num_cores
from flax_transformer.common.errors import UserError
from flax_transformer.common.signals import signals_blocked

from .packing import PackingPlan, Rows

_AHEAD = 2  # blocks that each worker plans before they are asked for
_SMALL = 1 << 16  # pairs that one thread plans soon enough; drawing segmentations takes it ten times as long
_SMALL_DRAWN = 1 << 13
_MOST = 8  # workers by default


def default_workers(pairs: int, *, is_drawn: bool) -> int:
    small = _SMALL_DRAWN if is_drawn else _SMALL
    return min(_MOST, num_cores() // 2) if pairs > small else 0


class Workers:
    """The rows of blocks, planned by `count` processes, which start when the first block is asked for."""

    def __init__(self, plan: PackingPlan, count: int) -> None:
        self._plan = plan
        self._count = count
        self._planned: dict[int, Future[Rows]] = {}
        self._pool: ProcessPoolExecutor | None = None

    def rows(self, block: int) -> Rows:
        """The rows of a block; the workers go on to those after it."""
        try:
            if self._pool is None:
                self._start()
                self._plan_ahead(block + 1, block)
                return self._plan.rows(block)  # here, while the workers start
            self._plan_ahead(block, block)
            return self._planned.pop(block).result()
        except BrokenProcessPool:
            self.close()
            raise UserError(
                f'a process that plans batches has died, before it had planned block {block}; if memory is short, '
                'lower --data.workers (0: planned in this process); the same command goes on from the last checkpoint'
            ) from None

    def _plan_ahead(self, first: int, block: int) -> None:
        """Asks for the blocks from the first to those planned while `block` is used, and for no others."""
        wanted = range(first, block + 1 + _AHEAD * self._count)
        for number in [number for number in self._planned if number not in wanted]:
            self._planned.pop(number).cancel()
        missing = [number for number in wanted if number not in self._planned]
        try:
            with signals_blocked(), _hidden_script():
                self._planned |= {number: self._pool.submit(_rows, number) for number in missing}
        except OSError as error:
            raise UserError(f'cannot start a process that plans batches: {error}; set --data.workers 0') from None

    def _start(self) -> None:
        context = multiprocessing.get_context('spawn')
        theirs, ours = context.Pipe(duplex=False)
        plan = pickle.dumps(self._plan, protocol=5)
        self._pool = ProcessPoolExecutor(self._count, context, initializer=_begin, initargs=(plan, theirs))
        # Also when the iterator is forgotten, and at the end of the program.
        self._end = weakref.finalize(self, _end, self._pool, ours)

    def close(self) -> None:
        if self._pool is not None:
            self._end()


def _end(pool: ProcessPoolExecutor, pipe: Connection) -> None:
    pipe.close()  # workers ignore the SIGTERM by which a pool ends them
    pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _hidden_script() -> Iterator[None]:
    """Hides the user's script, which `multiprocessing` would run again in each process that it spawns."""
    script = sys.modules['__main__']
    sys.modules['__main__'] = ModuleType('__main__')
    try:
        yield
    finally:
        sys.modules['__main__'] = script


# What runs in a worker:
_PLAN: list[bytes | PackingPlan] = []


def _begin(plan: bytes, pipe: Connection) -> None:
    gc.disable()  # no cycles are made here, and looking for them takes a tenth of the time
    _PLAN[:] = [plan]
    threading.Thread(target=_end_with, args=(pipe,), daemon=True).start()


def _end_with(pipe: Connection) -> None:
    pipe.poll(None)
    os._exit(0)


def _rows(block: int) -> Rows:
    if isinstance(_PLAN[0], bytes):
        _PLAN[:] = [pickle.loads(_PLAN[0])]  # not in _begin: a pool does not hand on what is raised there
    return _PLAN[0].rows(block)
