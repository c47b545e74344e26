"""Programs that a server compiles while it translates."""

import queue
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import CancelledError
from typing import Any

from .job import Job, is_done, settle
from .turns import Turns

_GLANCE = 0.02  # seconds between checks whether a batch has run


class Compilations:
    """A thread that compiles what batches lack, one after another; clients take turns at it."""

    def __init__(
        self, *, ready: Callable[[Sequence[Job]], None], fail: Callable[[BaseException, Sequence[Job]], None]
    ) -> None:
        """The thread calls `ready` with each batch that lacks nothing now, or `fail` if it ends unasked."""
        self._ready = ready
        self._fail = fail
        self._thread = threading.Thread(target=self._work, name='compilations', daemon=True)
        self._lock = threading.Lock()
        self._lacking = Turns()  # programs, and the batches that wait for them
        self._is_lacking: queue.SimpleQueue[bool] = queue.SimpleQueue()  # once for each of them; False is the end
        self._count = 0  # left to do
        self._compiled_for: set[int] = set()  # ids of the jobs whose programs were compiled last, until they run
        self._is_stopping = False

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> list[Job]:
        """Ends the thread after what it compiles; returns the jobs that waited."""
        self._is_stopping = True
        with self._lock:
            left = self._lacking.clear()
            self._count -= len(left)
        self._is_lacking.put(False)
        return [job for _, batch in left for job in batch]

    def is_running(self, timeout: float) -> bool:
        """Whether the thread still runs after so many seconds."""
        self._thread.join(timeout)
        return self._thread.is_alive()

    def ask(self, programs: Sequence[Any], client: Hashable = None, batch: Sequence[Job] = ()) -> None:
        """Has programs compiled, for a batch of that client's turn if there is one."""
        with self._lock:
            if not self._is_stopping:
                self._lacking.put(client, (programs, batch))
                self._count += 1
                self._is_lacking.put(True)
                return
        for job in batch:
            settle(job, CancelledError())

    def num_left(self) -> int:
        return self._count

    def let_go(self, batch: Sequence[Job]) -> None:
        """Says that a batch has run, or lacks programs again: those that were compiled for it may be forgotten."""
        self._compiled_for.difference_update(map(id, batch))

    def _work(self) -> None:
        batch: Sequence[Job] = ()
        try:
            while self._is_lacking.get() and not self._is_stopping:
                with self._lock:
                    if not self._lacking:
                        return
                    client = self._lacking.next_client()
                    programs, batch = self._lacking.take()
                is_wanted = not batch or not all(map(is_done, batch))
                seconds = self._compile(programs, batch) if is_wanted else 0.0
                with self._lock:
                    self._count -= 1
                    self._lacking.charge(client, seconds)
                if is_wanted:
                    self._wait_for(batch)
        except BaseException as error:
            self._fail(error, batch)

    def _compile(self, programs: Sequence[Any], batch: Sequence[Job]) -> float:
        """Compiles programs; returns the seconds. If it cannot, the batch that waits for them fails alone."""
        began = time.monotonic()
        try:
            for program in programs:
                program.compile(programs)
        except Exception as error:
            if not batch:
                raise
            for job in batch:
                settle(job, error)
        return time.monotonic() - began

    def _wait_for(self, batch: Sequence[Job]) -> None:
        """Has a batch translated, and returns once it was.

        Else what was compiled for it could be forgotten before.
        """
        self._compiled_for = set(map(id, batch))
        self._ready(batch)
        while any(id(job) in self._compiled_for and not is_done(job) for job in batch) and not self._is_stopping:
            time.sleep(_GLANCE)
