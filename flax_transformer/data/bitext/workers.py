"""Blocks planned ahead by other processes.

A block is a pure function of its number, so it does not matter who plans it. Workers are programs of their own: a fork
of a process in which JAX has threads may hang, and `multiprocessing` would run the user's script again in each. They
end when their input does, so none outlives this process.
"""

import contextlib
import gc
import os
import pickle
import signal
import subprocess
import sys
import traceback
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue

from flax_transformer.common.errors import UserError
from flax_transformer.common.signals import signals_blocked
from flax_transformer.data.bitext.packing import PackingPlan, Rows

_AHEAD = 2  # blocks that each worker plans before they are asked for
# Pairs: a corpus of up to this size is planned soon enough by one thread; drawing segmentations takes it ten times as
# long.
_SMALL, _SMALL_DRAWN = 1 << 16, 1 << 13
_MOST = 8  # workers by default
_PROGRAM = 'from flax_transformer.data.bitext.workers import serve; serve()'


def default_workers(pairs: int, *, is_drawn: bool) -> int:
    """How many workers plan a corpus of so many pairs, perhaps with segmentations drawn: none if it is small."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1
    return 0 if pairs <= (_SMALL_DRAWN if is_drawn else _SMALL) else min(_MOST, cores // 2)


class Workers:
    """The rows of blocks, planned by `count` processes, which start when the first block is asked for."""

    def __init__(self, plan: PackingPlan, count: int) -> None:
        self._plan, self._count = plan, count
        self._planned: dict[int, Future[Rows]] = {}
        self._threads: ThreadPoolExecutor | None = None  # each waits for a worker's answer
        self.close = lambda: None

    def rows(self, block: int) -> Rows:
        """The rows of a block; sets the workers to the blocks after it. Raises UserError if a worker has died."""
        is_new = self._threads is None
        if is_new:
            self._start()
        wanted = range(block + is_new, block + 1 + _AHEAD * self._count)
        for number in [number for number in self._planned if number not in wanted]:
            self._planned.pop(number).cancel()
        for number in wanted:
            if number not in self._planned:
                self._planned[number] = self._threads.submit(_answer, self._idle, number)
        # The first block is planned here, while the workers start.
        return self._plan.rows(block) if is_new else self._planned.pop(block).result()

    def _start(self) -> None:
        self._threads = ThreadPoolExecutor(self._count, thread_name_prefix='batches')
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        plan, workers = pickle.dumps(self._plan, protocol=5), []
        # Also when the iterator is forgotten, and at the end of the program.
        self.close = weakref.finalize(self, _end, self._threads, workers)
        for _ in range(self._count):
            workers.append(_Worker(plan))
            self._idle.put(workers[-1])


def _answer(idle: 'SimpleQueue[_Worker]', block: int) -> Rows:
    worker = idle.get()
    try:
        return worker.rows(block)
    finally:
        idle.put(worker)


def _end(threads: ThreadPoolExecutor, workers: 'list[_Worker]') -> None:
    threads.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        worker.end()
    threads.shutdown()


class _Worker:
    """A process that plans blocks, as this one sees it."""

    def __init__(self, plan: bytes) -> None:
        paths = os.pathsep.join(map(os.path.abspath, sys.path))
        try:
            with signals_blocked():
                self._process = subprocess.Popen(
                    [sys.executable, '-P', '-c', _PROGRAM],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env={**os.environ, 'PYTHONPATH': paths},
                )
        except OSError as error:
            raise UserError(f'cannot start a process that plans batches: {error}; set --data.workers 0') from None
        self._unsent = plan

    def rows(self, block: int) -> Rows:
        try:
            self._process.stdin.write(self._unsent + pickle.dumps(block))
            self._process.stdin.flush()
            self._unsent = b''
            answer = pickle.load(self._process.stdout)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            code = self._process.wait()
            reason = signal.Signals(-code).name if code < 0 else f'exit code {code}'
            raise UserError(
                f'a process that plans batches has died ({reason}) at block {block}; if memory is short, lower '
                '--data.workers (0: planned in this process); the same command goes on from the last checkpoint'
            ) from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):  # what was not sent
                pipe.close()


def serve() -> None:
    """A worker's program: reads a plan, then numbers of blocks; writes the rows of each, or its exception."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), 'wb')
    os.dup2(2, 1)  # a print must not come between the answers
    gc.disable()  # no cycles are made here, and looking for them takes a tenth of the time
    plan = None
    with contextlib.suppress(EOFError, BrokenPipeError):  # the other process has ended
        while True:
            try:
                plan = plan or pickle.load(requests)
                answer = plan.rows(pickle.load(requests))
            except EOFError:
                raise
            except Exception as error:
                error.add_note('in a process that plans batches:\n' + traceback.format_exc())
                answer = error
            pickle.dump(answer, answers, protocol=5)
            answers.flush()
