"""The thread that translates the lines of many callers, above all when it fails."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from flax_transformer.server.batcher import Batcher, Job, ThreadFailed


def batcher(**parts: Callable[..., None]) -> Batcher:
    return Batcher(**{'batch_tokens': 8, 'warm_up': lambda: None, 'observe': lambda *seen: None} | parts)


def fail(*_: Any) -> None:
    raise RuntimeError('the reason')


def leave(lines: list[Any]) -> Sequence[Any]:
    raise SystemExit('the reason')


def run(made: Batcher, *calls: Callable[[list[Any]], Sequence[Any]]) -> list[Any]:
    """The results or errors of jobs of which no two share a batch."""

    async def ask() -> list[Any]:
        jobs = [Job(number, 1, call, number) for number, call in enumerate(calls)]
        made.submit(jobs)
        made.start()
        waiting = asyncio.gather(*(job.result for job in jobs), return_exceptions=True)
        results = await asyncio.wait_for(waiting, 10)
        made.stop()
        return results

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ('parts', 'calls', 'failed'),
    [
        ({'warm_up': fail}, [list, list], [True, True]),
        ({'observe': fail}, [list, list], [False, True]),
        ({}, [list, leave, list], [False, True, True]),
    ],
)
@pytest.mark.filterwarnings('error')
def test_all_who_wait_learn_why_the_thread_ended(
    parts: dict[str, Any], calls: list[Any], failed: list[bool], capsys: pytest.CaptureFixture[str]
) -> None:
    made = batcher(**parts)
    results = run(made, *calls)
    assert [isinstance(result, ThreadFailed) for result in results] == failed
    assert 'the reason' in str(results[-1])
    assert 'the reason' in made.failure
    assert 'the reason' in capsys.readouterr().err
    with pytest.raises(ThreadFailed, match='the reason'):
        made.submit([])


def test_a_loop_is_woken_once_for_a_batch_and_a_closed_one_harms_no_other() -> None:
    made = batcher()
    wakes = []

    async def make() -> Job:
        return Job(0, 1, list, 0)

    async def ask() -> list[Any]:
        loop = asyncio.get_running_loop()
        wake = loop.call_soon_threadsafe
        loop.call_soon_threadsafe = lambda *call: (wakes.append(call), wake(*call))
        jobs = [Job(number, 1, list, 0) for number in range(3)]
        made.submit(jobs)
        made.start()
        results = await asyncio.wait_for(asyncio.gather(*(job.result for job in jobs)), 10)
        made.stop()
        return results

    made.submit([asyncio.run(make())])
    assert asyncio.run(ask()) == [0, 1, 2]
    assert len(wakes) == 1
    assert made.failure is None


def test_what_nobody_waits_for_is_dropped_and_the_oldest_come_first() -> None:
    made, seen = batcher(), []

    def call(lines: list[Any]) -> Sequence[Any]:
        seen.append(lines)
        return lines

    async def ask() -> list[Any]:
        jobs = [Job(number, 1, call, key) for number, key in enumerate([0, 1, 0, 2, 1, 0])]
        jobs[2].result.cancel()
        made.submit(jobs)
        made.start()
        waiting = asyncio.gather(*(job.result for job in jobs if not job.result.cancelled()))
        results = await asyncio.wait_for(waiting, 10)
        made.stop()
        return results

    assert asyncio.run(ask()) == [0, 1, 3, 4, 5]
    assert seen == [[0, 5], [1, 4], [3]]
