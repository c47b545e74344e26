"""Work on its way through the queue of a server."""

import contextlib
import math
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class Job:
    """Work of bounded cost on its way through the queue."""

    client: Hashable
    line: Any
    call: Callable[[list[Any]], Sequence[Any]]  # gives a result for each line; made by the translators' thread
    kind: Hashable  # jobs of the same kind may share a batch, and a call
    most: int = 1  # lines of a batch
    slots: int = 1  # what each line takes of a batch
    cost: float = 0.0  # seconds, about
    key: Hashable = None  # jobs with the same key have the same result, which is kept; None: it is not
    needs: Callable[[int], Sequence[Any]] = lambda count: ()  # the programs that a batch of so many lines runs
    engine: str = ''  # names the search that translates it
    result: Future[Any] = field(default_factory=Future)
    started: float = math.inf  # when its batch began
    num_tokens: int = 1  # its translation has so many


def is_done(job: Job) -> bool:
    return job.result.done()


def begins(job: Job) -> bool:
    """Whether somebody still waits for a job, which may have begun before and come back."""
    result = job.result
    return result.running() or (not result.done() and result.set_running_or_notify_cancel())


def settle(job: Job, result: Any) -> None:
    """Gives a job its result, or an exception in place of one, if somebody still waits for it."""
    give = job.result.set_exception if isinstance(result, Exception) else job.result.set_result
    with contextlib.suppress(InvalidStateError):
        give(result)
