"""A request's work, in a thread of its own, which lends its turn to others while it waits for the translators."""

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import CancelledError
from typing import Any

from .batcher import Batcher
from .fields import Gone
from .job import Job
from .turns import Baton


class Errand:
    """What is done for a request of a client."""

    def __init__(self, client: Hashable, batcher: Batcher, baton: Baton) -> None:
        self.client = client
        self.jobs: list[Job] = []  # submitted so far
        self._batcher = batcher
        self._baton = baton
        self._is_canceled = False

    def run(self, work: Callable[['Errand'], Any]) -> Any:
        """What `work` gives. Raises Gone if it is canceled."""
        self._baton.take(self.client)
        try:
            self._check()
            return work(self)
        finally:
            self._baton.give(self.client)

    def results(self, jobs: Sequence[Job]) -> list[Any]:
        """The results of jobs. Raises what one of them raises, or Gone if they are canceled."""
        self.jobs += jobs
        self._batcher.submit(jobs)
        self._baton.give(self.client)
        try:
            self._check()
            return [job.result.result() for job in jobs]
        except CancelledError:
            raise Gone from None
        finally:
            self._withdraw()
            self._baton.take(self.client)

    def lend(self) -> None:
        """To be called now and then during long work. Raises Gone if the errand is canceled."""
        self._check()
        self._baton.lend(self.client)

    def cancel(self) -> None:
        """Drops what has not begun: nobody waits for it any more."""
        self._is_canceled = True
        self._withdraw()

    def _withdraw(self) -> None:
        self._batcher.withdraw(self.client, [job for job in self.jobs if not job.result.done()])

    def _check(self) -> None:
        if self._is_canceled:
            raise Gone
