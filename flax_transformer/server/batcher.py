"""One batch of many callers' lines: a thread owns the translators, and clients take turns at it."""

import collections
import contextlib
import sys
import threading
import time
import traceback
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import CancelledError
from typing import Any

from flax_transformer.common.errors import UserError

from .cache import Cache
from .compilations import Compilations
from .job import Job, begins, is_done, settle
from .turns import Turns

# Share of a batch's time. Callers ask again at once: waiting for as many lines makes one batch of them and of those who
# wait already. Two groups of callers would else take turns for ever.
_PAUSE = 0.05
_AHEAD = 0.1  # seconds that one client may be ahead of others
_REST = 2.0  # seconds without a job after which memory is given back
_RESTLESS = 60.0  # seconds under load after which it is given back


class ThreadFailed(Exception):
    """The thread that translates has failed: the server translates nothing more."""


def _distinct(batch: Sequence[Job]) -> list[Job]:
    return list({job.key or job: job for job in batch}.values())


def _needed(batch: Sequence[Job]) -> Sequence[Any]:
    """The programs that a batch runs, if one of them is not ready."""
    programs = batch[0].needs(len(_distinct(batch)))
    return () if all(program.is_ready for program in programs) else programs


class Batcher:
    """Translates what is submitted, in batches; clients have equal shares of its time while they wait."""

    def __init__(
        self,
        *,
        warm_up: Callable[[], None],
        observe: Callable[[list[Job], float], None],
        rest: Callable[[], None] = lambda: None,
        cache: int = 0,
    ) -> None:
        """The thread calls `warm_up` first, and `observe` after each batch with its jobs and seconds.

        It calls `rest` once no job comes, and each minute. `cache` bytes of results are kept.
        """
        self._rest = rest
        self._rested = time.monotonic()
        self._cache = Cache(cache)
        self._warm_up = warm_up
        self._observe = observe
        self._turns = Turns()
        self._costs: collections.Counter[Hashable] = collections.Counter()  # of each client's jobs that wait
        self._count = 0  # jobs that wait
        self._changed = threading.Condition()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._work, name='translators', daemon=True)
        self.compilations = Compilations(ready=self._again, fail=self._fail)
        self.is_warm = False
        self.failure: str | None = None  # why the thread has ended unasked

    def start(self) -> None:
        self._thread.start()
        self.compilations.start()

    def stop(self) -> None:
        """Ends the thread after its batch; what waits is canceled."""
        with self._changed:
            self._is_stopping = True
            jobs = self._clear()
            self._changed.notify()
        for job in [*jobs, *self.compilations.stop()]:
            if not job.result.cancel():
                settle(job, CancelledError())  # it had begun

    def is_running(self, timeout: float) -> bool:
        """Whether a thread still runs after so many seconds."""
        self._thread.join(timeout)
        return self.compilations.is_running(timeout) or self._thread.is_alive()

    def forget(self) -> None:
        """Drops results that are kept, as of models no longer served."""
        with self._changed:
            self._cache.clear()

    def num_waiting(self) -> int:
        return self._count

    def submit(self, jobs: Sequence[Job]) -> None:
        """Queues jobs. Raises ThreadFailed."""
        with self._changed:
            if self.failure is not None:
                raise ThreadFailed(self.failure)
            for job in jobs:
                if not self._recall(job):
                    self._turns.put(job.client, job, job.kind)
                    self._costs[job.client] += job.cost
                    self._count += 1
            self._changed.notify()

    def withdraw(self, client: Hashable, jobs: Sequence[Job]) -> None:
        """Drops a client's jobs; whoever waits for them waits no more."""
        for job in jobs:
            if not job.result.cancel():
                settle(job, CancelledError())  # it is being translated
        with self._changed:
            for job in self._turns.drop(client, is_done):
                self._count -= 1
                self._costs[client] -= job.cost

    def wait_for(self, client: Hashable, cost: float) -> float:
        """About the seconds until more jobs of a client, of so much cost, are done."""
        with self._changed:
            # Sums of floats leave some.
            self._costs = collections.Counter({name: cost for name, cost in self._costs.items() if cost > 1e-6})
            costs = self._costs.copy()
        own = costs.pop(client, 0.0) + cost
        return own + sum(min(own, other) for other in costs.values())

    def _recall(self, job: Job) -> bool:
        """Whether there was a result for a job, which it has now."""
        with self._changed:
            if (result := self._cache.get(job.key)) is None:
                return False
        job.started = min(job.started, time.monotonic())
        settle(job, result)
        return True

    def _clear(self) -> list[Job]:
        self._costs.clear()
        self._count = 0
        return self._turns.clear()

    def _work(self) -> None:
        batch: list[Job] = []
        try:
            self._warm_up()
            self.is_warm = True
            while batch := self._next():
                if programs := _needed(batch):
                    self.compilations.ask(programs, batch[0].client, batch)
                else:
                    seconds = self._run(batch)
                    self._wait_until(min(self._count + len(batch), batch[0].most), timeout=_PAUSE * seconds)
                self.compilations.let_go(batch)
        except BaseException as error:
            self._fail(error, batch)

    def _again(self, batch: Sequence[Job]) -> None:
        """Queues a batch whose programs were compiled."""
        with self._changed:
            for job in batch:
                self._turns.charge(job.client, -job.cost)  # their turn comes again
        self.submit([job for job in batch if not is_done(job)])

    def _run(self, batch: list[Job]) -> float:
        """Translates a batch, and charges its clients; returns the seconds."""
        started = time.monotonic()
        for job in batch:
            job.started = started
        distinct = _distinct(batch)
        self._translate(distinct)
        if left := [job for job in batch if not is_done(job) and not self._recall(job)]:
            self._translate(left)
        duration = time.monotonic() - started
        total = sum(job.num_tokens for job in batch)  # the longest line keeps a batch for longest
        with self._changed:
            for job in batch:
                self._turns.charge(job.client, duration * job.num_tokens / total - job.cost)
                self._turns.expect(job.client)
        self._observe(distinct, duration)
        return duration

    def _fail(self, error: BaseException, batch: Sequence[Job]) -> None:
        reason = str(error) if isinstance(error, UserError) else f'{type(error).__name__}: {error}'
        with self._changed:
            self.failure = reason
            jobs = [*batch, *self._clear()]
        with contextlib.suppress(OSError, ValueError):  # nobody reads the log
            print(f'flax-transformer: the thread that translates has failed: {reason}', file=sys.stderr, flush=True)
            if not isinstance(error, UserError):
                traceback.print_exception(error)
        for job in [*jobs, *self.compilations.stop()]:
            settle(job, ThreadFailed(reason))

    def _wait_until(self, count: int, timeout: float | None = None) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._count >= count or self._is_stopping, timeout)

    def _next(self) -> list[Job]:
        """The next batch; none: it is time to stop."""
        while True:
            if not self._wait_until(1, timeout=_REST) or time.monotonic() - self._rested > _RESTLESS:
                self._rest()
                self._rested = time.monotonic()
                self._wait_until(1)
            with self._changed:
                # Who asks again at once would find a long batch begun by a client that has had more.
                while not self._is_stopping and self._count:
                    if (seconds := self._turns.time_to_wait(_AHEAD)) <= 0:
                        break
                    self._changed.wait(seconds)
                if self._is_stopping:
                    return []
                jobs = self._take() if self._count else []
            # From here on they cannot be canceled.
            if batch := list(filter(begins, jobs)):
                return batch

    def _take(self) -> list[Job]:
        """Takes the job whose turn it is and those that go with it.

        Not those of clients that have had more: all in a batch wait for its longest line.
        """
        batch = [self._turns.take()]
        while len(batch) < batch[0].most:
            self._count_out(batch[-1])
            clients = {job.client for job in batch}
            if (job := self._turns.take_like(batch[0].kind, clients, _AHEAD)) is None:
                return batch
            batch.append(job)
        self._count_out(batch[-1])
        return batch

    def _count_out(self, job: Job) -> None:
        self._count -= 1
        self._costs[job.client] -= job.cost
        if not self._recall(job):
            self._turns.charge(job.client, job.cost)

    def _translate(self, batch: list[Job]) -> None:
        try:
            results = batch[0].call([job.line for job in batch])
        except Exception as error:
            if half := len(batch) // 2:  # some are at fault; the others get their translations
                self._translate(batch[:half])
                self._translate(batch[half:])
                return
            results = [error]
        for job, result in zip(batch, results, strict=True):
            job.num_tokens = max(getattr(result, 'num_tokens', 1), 1)
            if job.key and not isinstance(result, Exception):
                with self._changed:
                    self._cache.put(job.key, result)
            settle(job, result)
