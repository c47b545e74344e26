"""One batch of many requests: a thread owns the translators, and lines wait for it in a queue."""

import asyncio
import collections
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from flax_transformer.server.metrics import Metrics

# After a batch of several requests, their clients ask again at once: waiting this share of its time for them makes one
# batch of the next requests, where the first alone would otherwise be a batch of one.
_PAUSE = 0.05


class Job:
    """The lines of a request on their way through the queue."""

    def __init__(
        self, lines: Sequence[Any], slots: Sequence[int], call: Callable[[list[Any]], Sequence[Any]], key: Hashable
    ) -> None:
        """
        Args:
          slots: what each line takes of a batch.
          call: gives a result for each line; made by the translators' thread.
          key: jobs of the same key may share a batch, which the call of any of them translates.
        """
        self.lines, self.slots, self.call, self.key = lines, slots, call, key
        self.results: list[Any] = [None] * len(lines)
        self.num_missing = len(lines)
        self.is_dropped = False  # nobody waits for it any more
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.admitted = time.monotonic()
        self.started = self.finished = 0.0


_Item = tuple[Job, int]  # a job and the index of one of its lines


class Batcher:
    """Translates what is submitted, oldest first, in batches of at most `batch_tokens` slots."""

    def __init__(self, metrics: Metrics, *, batch_tokens: int, warm_up: Callable[[], None]) -> None:
        """`warm_up` is what the thread does first."""
        self._metrics, self._batch_tokens, self._warm_up = metrics, batch_tokens, warm_up
        self._queue: collections.deque[_Item] = collections.deque()
        self._changed = threading.Condition()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._work, name='translators', daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread once the queue is empty."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join()

    def submit(self, jobs: Sequence[Job]) -> None:
        """Queues jobs; the `done` of each is set in the event loop that submits it."""
        with self._changed:
            self._queue.extend((job, index) for job in jobs for index in range(len(job.lines)))
            self._changed.notify()

    def _work(self) -> None:
        self._warm_up()
        while batch := self._next():
            started = time.monotonic()
            self._translate(batch)
            duration = time.monotonic() - started
            self._metrics.batch.observe(duration)
            self._metrics.lines.observe(len(batch))
            self._metrics.slots.observe(sum(job.slots[index] for job, index in batch))
            if len({id(job) for job, _ in batch}) > 1:
                time.sleep(_PAUSE * duration)

    def _next(self) -> list[_Item]:
        """The next batch; empty when the thread is to end."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._queue or self._is_stopping)
                if (batch := self._take()) or self._is_stopping:
                    return batch

    def _take(self) -> list[_Item]:
        """Takes the oldest line from the queue, and those that fit into a batch with it; drops what nobody waits for.

        It ends at the first line that would fit but for its length, so that no line waits for shorter ones.
        """
        chosen: list[_Item] = []
        others: list[_Item] = []
        room = self._batch_tokens
        while self._queue and room > 0:
            job, index = self._queue.popleft()
            if job.is_dropped:
                continue
            if chosen and job.key != chosen[0][0].key:
                others.append((job, index))
                continue
            room -= job.slots[index]
            (chosen if room >= 0 or not chosen else others).append((job, index))
        self._queue.extendleft(reversed(others))
        return chosen

    def _translate(self, batch: list[_Item]) -> None:
        jobs = list(dict.fromkeys(job for job, _ in batch))
        for job in jobs:
            job.started = job.started or time.monotonic()
        try:
            results = jobs[0].call([job.lines[index] for job, index in batch])
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].is_dropped = True
                _deliver(jobs, error)
            else:  # one of them is at fault; the others get their translations
                for job in jobs:
                    self._translate([item for item in batch if item[0] is job])
            return
        for (job, index), result in zip(batch, results, strict=True):
            job.results[index] = result
            job.num_missing -= 1
        _deliver([job for job in jobs if not job.num_missing])


def _deliver(jobs: Sequence[Job], error: Exception | None = None) -> None:
    """Wakes the event loop once for all jobs that are finished."""

    def wake() -> None:
        for job in jobs:
            if not job.done.done():
                job.done.set_result(None) if error is None else job.done.set_exception(error)

    for job in jobs:
        job.finished = time.monotonic()
    if jobs:
        jobs[0].done.get_loop().call_soon_threadsafe(wake)
