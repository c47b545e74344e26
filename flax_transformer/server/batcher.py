"""One batch of many callers' lines: a thread owns the translators, and lines wait for it in a queue."""

import asyncio
import collections
import contextlib
import sys
import threading
import time
import traceback
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from flax_transformer.common.errors import UserError

# Share of a batch's time. Callers ask again at once: waiting for as many lines makes one batch of them.
_PAUSE = 0.05


@dataclass(eq=False)
class Job:
    """A line on its way through the queue."""

    line: Any
    slots: int  # what it takes of a batch
    call: Callable[[list[Any]], Sequence[Any]]  # gives a result for each line; made by the translators' thread
    key: Hashable  # jobs of the same key may share a batch, and a call
    result: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    started: float = 0.0  # when its batch began


class ThreadFailed(Exception):
    """The thread that translates has failed: the server translates nothing more."""


class Batcher:
    """Translates what is submitted, oldest first, in batches of at most `batch_tokens` slots."""

    def __init__(
        self, *, batch_tokens: int, warm_up: Callable[[], None], observe: Callable[[int, int, float], None]
    ) -> None:
        """The thread calls `warm_up` first, and `observe` after each batch with its lines, slots and seconds."""
        self._batch_tokens = batch_tokens
        self._warm_up = warm_up
        self._observe = observe
        self._queue: collections.deque[Job] = collections.deque()
        self._changed = threading.Condition()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._work, name='translators', daemon=True)
        self.is_warm = False
        self.failure: str | None = None  # why the thread has ended unasked

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread once the queue is empty; does not wait for one that still warms up."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        if self.is_warm:
            self._thread.join()

    def submit(self, jobs: Sequence[Job]) -> None:
        """Queues jobs; a job whose result is canceled is dropped. Raises ThreadFailed."""
        with self._changed:
            if self.failure is not None:
                raise ThreadFailed(self.failure)
            self._queue.extend(jobs)
            self._changed.notify()

    def _work(self) -> None:
        batch: list[Job] = []
        try:
            self._warm_up()
            self.is_warm = True
            while batch := self._next():
                started = time.monotonic()
                for job in batch:
                    job.started = started
                self._translate(batch)
                duration = time.monotonic() - started
                self._observe(len(batch), sum(job.slots for job in batch), duration)
                self._wait_for(len(batch), timeout=_PAUSE * duration)
        except BaseException as error:
            self._fail(error, batch)

    def _fail(self, error: BaseException, batch: list[Job]) -> None:
        reason = str(error) if isinstance(error, UserError) else f'{type(error).__name__}: {error}'
        with self._changed:
            self.failure = reason
            jobs = [*batch, *self._queue]
            self._queue.clear()
        with contextlib.suppress(OSError, ValueError):  # nobody reads the log
            print(f'flax-transformer: the thread that translates has failed: {reason}', file=sys.stderr, flush=True)
            if not isinstance(error, UserError):
                traceback.print_exception(error)
        _deliver(jobs, [ThreadFailed(reason) for _ in jobs])

    def _wait_for(self, count: int, timeout: float | None = None) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(self._queue) >= count or self._is_stopping, timeout)

    def _next(self) -> list[Job]:
        while True:
            self._wait_for(1)
            with self._changed:
                batch = self._take()
                if batch or self._is_stopping:
                    return batch

    def _take(self) -> list[Job]:
        """Takes the oldest job and those that fit into a batch with it; drops what nobody waits for.

        The batch ends at the first job too long for the room left, so that no line waits for shorter ones.
        """
        chosen: list[Job] = []
        others: list[Job] = []
        room = self._batch_tokens
        while self._queue and room > 0:
            job = self._queue.popleft()
            if job.result.cancelled():
                continue
            if chosen and job.key != chosen[0].key:
                others.append(job)
                continue
            room -= job.slots
            if room >= 0 or not chosen:
                chosen.append(job)
            else:
                others.append(job)
        self._queue.extendleft(reversed(others))
        return chosen

    def _translate(self, batch: list[Job]) -> None:
        try:
            results = batch[0].call([job.line for job in batch])
        except Exception as error:
            if half := len(batch) // 2:  # some are at fault; the others get their translations
                self._translate(batch[:half])
                self._translate(batch[half:])
                return
            results = [error]
        _deliver(batch, results)


def _deliver(jobs: Sequence[Job], results: Sequence[Any]) -> None:
    """Hands results, or exceptions, to the loops in which the jobs were made, each of which is woken once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for job, result in zip(jobs, results, strict=True):
        by_loop.setdefault(job.result.get_loop(), []).append((job.result, result))
    for loop, pairs in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(_set_results, pairs)


def _set_results(pairs: Sequence[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, result in pairs:
        if future.done():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
