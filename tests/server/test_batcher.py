"""The thread that translates the lines of many callers: who is next, and what happens when it fails."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import wait
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.server.batcher import Batcher, ThreadFailed
from flax_transformer.server.job import Job
from flax_transformer.server.turns import Baton, Turns

MOST = 8


def batcher(**parts: Any) -> Batcher:
    return Batcher(**{'warm_up': lambda: None, 'observe': lambda *seen: None} | parts)


def fail(*_: Any) -> None:
    raise RuntimeError('the reason')


def leave(lines: list[Any]) -> Sequence[Any]:
    raise SystemExit('the reason')


def results_of(made: Batcher, jobs: Sequence[Job]) -> list[Any]:
    """The results or errors of jobs."""
    made.submit(jobs)
    made.start()
    waiting = [job.result for job in jobs if not job.result.cancelled()]
    assert not wait(waiting, 10).not_done
    made.stop()
    return [future.exception() or future.result() for future in waiting]


@pytest.mark.parametrize(
    ('parts', 'calls', 'failed'),
    [
        ({'warm_up': fail}, [list, list], [True, True]),
        ({'observe': fail}, [list, list], [False, True]),
        ({}, [list, leave, list], [False, True, True]),
    ],
)
def test_all_who_wait_learn_why_the_thread_ended(
    parts: dict[str, Any], calls: list[Any], failed: list[bool], capsys: pytest.CaptureFixture[str]
) -> None:
    made = batcher(**parts)
    results = results_of(made, [Job('a', number, call, number) for number, call in enumerate(calls)])
    assert [isinstance(result, ThreadFailed) for result in results] == failed
    assert 'the reason' in str(results[-1])
    assert 'the reason' in made.failure
    assert 'the reason' in capsys.readouterr().err
    with pytest.raises(ThreadFailed, match='the reason'):
        made.submit([])


def test_what_nobody_waits_for_is_dropped_and_the_oldest_come_first() -> None:
    made, seen = batcher(), []

    def call(lines: list[Any]) -> Sequence[Any]:
        seen.append(lines)
        return lines

    jobs = [Job('a', number, call, kind, MOST) for number, kind in enumerate([0, 1, 0, 2, 1, 0])]
    jobs[2].result.cancel()
    assert results_of(made, jobs) == [0, 1, 3, 4, 5]
    assert seen == [[0, 5], [1, 4], [3]]


def test_equal_jobs_are_done_once_unless_the_first_is_refused_or_forgotten() -> None:
    made, seen = batcher(cache=200), []

    def call(lines: list[Any]) -> Sequence[Any]:
        seen.append(lines)
        if 'refused' in lines:
            raise UserError('no')
        return lines

    def jobs(name: str, count: int) -> list[Job]:
        return [Job('a', name, call, name, MOST, cost=1.0, key=name) for _ in range(count)]

    asked = [*jobs('six', 12), *jobs('refused', 2), *jobs('two', 1)]
    assert [str(result) for result in results_of(made, asked)] == ['six'] * 12 + ['no'] * 2 + ['two']
    assert seen == [['six'], ['refused'], ['refused'], ['two']]
    again = [*jobs('two', 2), *jobs('refused', 1)]
    made.submit(again)
    assert [job.result.done() for job in again] == [True, True, False]
    assert made.wait_for('a', 1.0) == 2.0
    for number in range(9):
        made._cache.put(number, 'x' * 10)
    assert [made._cache.get(name) for name in ('six', 'two', 8)] == [None, None, 'x' * 10]


def test_a_job_that_is_withdrawn_while_it_is_done_does_not_take_its_equals_along() -> None:
    made, began, gate = batcher(cache=200), threading.Event(), threading.Event()

    def call(lines: list[Any]) -> Sequence[Any]:
        began.set()
        assert gate.wait(10)
        return lines

    first, second = (Job('a', 'six', call, 0, MOST, key='six') for _ in range(2))
    made.submit([second, first])
    made.start()
    assert began.wait(10)
    made.withdraw('a', [first])
    gate.set()
    assert second.result.result(10) == 'six'
    made.stop()


def test_clients_take_turns_and_nobody_waits_for_the_lines_of_one_that_has_had_more() -> None:
    made, seen = batcher(), []

    def call(lines: list[Any]) -> Sequence[Any]:
        seen.append(''.join(lines))
        return lines

    def jobs(client: str, count: int, cost: float) -> list[Job]:
        return [Job(client, client, call, 0, MOST, cost=cost) for _ in range(count)]

    asked = [*jobs('a', 20, cost=5.0), *jobs('b', 2, cost=0.01), *jobs('c', 3, cost=0.01)]
    assert made.wait_for('d', 1.0) == 1.0
    results_of(made, asked)
    assert ''.join(sorted(seen[0])) == 'abbccc'  # no more of 'a', though there is room for eight
    assert seen[1:] == ['a' * 8, 'a' * 8, 'a' * 3]


def test_the_time_until_an_answer_counts_what_waits_but_no_more_of_others_than_of_ones_own() -> None:
    made = batcher()
    made.submit([Job('a', 0, list, 0, cost=30.0) for _ in range(10)])
    waiting = [Job('b', 0, list, 0, cost=1.0)]
    made.submit(waiting)
    assert made.wait_for('c', 0.5) == pytest.approx(1.5)
    assert made.wait_for('a', 1.0) == pytest.approx(302)
    made.withdraw('b', waiting)
    assert made.wait_for('c', 0.5) == pytest.approx(1.0)
    assert made.wait_for('b', 0.5) == pytest.approx(1.0)


def test_who_comes_back_has_saved_no_time_up() -> None:
    turns = Turns()
    turns.charge('busy', 100.0)  # it worked while the other one slept
    turns.put('busy', 'busy')
    turns.take()
    order = []
    for _ in range(8):
        turns.put('busy', 'busy')
        turns.put('slept', 'slept')
    for _ in range(8):
        client = turns.take()
        turns.charge(client, 1.0)
        order.append(client)
    assert order.count('busy') == order.count('slept') == 4


def test_one_client_prepares_beside_a_long_text_of_another_which_gets_one_thread() -> None:
    baton, order = Baton(), []

    def work(client: str) -> threading.Thread:
        def run() -> None:
            baton.take(client)
            order.append(client)
            baton.give(client)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    baton.take('long')
    second = work('long')
    work('short').join(10)
    work('other').join(10)
    assert order == ['short', 'other']
    baton.give('long')
    second.join(10)
    assert order == ['short', 'other', 'long']


class Clock:
    """Time that a test sets."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr('flax_transformer.server.batcher.time', clock)
    monkeypatch.setattr('flax_transformer.server.turns.time', clock)
    return clock


def test_a_client_that_has_had_more_waits_for_one_that_came_back_at_once_before(clock: Clock) -> None:
    def after(pause: float) -> float:
        """For how long the busy one waits then."""
        turns = Turns()
        turns.charge('busy', 5.0)
        for _ in range(2):
            turns.put('short', 0)
            turns.charge('short', 1.0)
            turns.take()
            turns.expect('short')
            clock.now += pause
        turns.put('busy', 0)
        return turns.time_to_wait(0.1) + pause

    assert after(0.01) == pytest.approx(0.25)
    assert after(0.2) == pytest.approx(0.25)
    assert after(0.3) <= 0.3  # no longer than it took to come here


def test_clients_pay_for_a_batch_by_the_lengths_of_their_translations(clock: Clock) -> None:
    made, order = batcher(), []

    def call(lines: list[Any]) -> Sequence[Any]:
        clock.now += 1.0 if len(lines) > 1 else 0.2
        order.extend(line for line in lines if len(lines) == 1)
        return [SimpleNamespace(num_tokens=85 if line == 'garbage' else 15) for line in lines]

    together = [Job(client, client, call, 0, 2) for client in ('garbage', 'short')]
    alone = [Job(client, client, call, 1, cost=0.2) for client in ('garbage', 'short') for _ in range(6)]
    results_of(made, [*together, *alone])
    assert order[:5] == ['short'] * 4 + ['garbage']


def test_who_asks_again_at_once_shares_a_batch_with_those_that_wait_already(clock: Clock) -> None:
    made, seen = batcher(), []
    again, other = (Job('a', name, lambda lines: lines, 0, MOST) for name in ('again', 'other'))

    def call(lines: list[Any]) -> Sequence[Any]:
        made.submit([other])
        threading.Timer(0.05, made.submit, [[again]]).start()
        clock.now += 60
        return lines

    def observe(batch: list[Job], seconds: float) -> None:
        seen.append({job.line for job in batch})

    made._observe = observe
    made.submit([Job('a', 'first', call, 0, MOST)])
    made.start()
    assert again.result.result(10) == 'again'
    made.stop()
    made.is_running(10)
    assert seen == [{'first'}, {'other', 'again'}]


class Program:
    """What can be compiled once its gate is open."""

    is_ready = False

    def __init__(self) -> None:
        self.began, self.gate = threading.Event(), threading.Event()

    def compile(self, among: Sequence[Any]) -> None:
        assert among == [self]
        self.began.set()
        assert self.gate.wait(10)
        self.is_ready = True


def test_what_must_be_compiled_waits_and_nothing_else() -> None:
    made, program, seen = batcher(), Program(), []

    def call(lines: list[Any]) -> Sequence[Any]:
        seen.append(threading.current_thread().name)
        return lines

    jobs = [
        Job('a', number, call, 0, MOST, cost=1.0, needs=lambda count: [program][: count > 1]) for number in range(20)
    ]
    made.submit(jobs)
    made.start()
    assert program.began.wait(10)
    for job in (Job('a', 20, list, 1), Job('a', 21, call, 0, needs=lambda size: [])):
        made.submit([job])
        assert job.result.result(10) == job.line
    made.withdraw('a', jobs[10:15])
    program.gate.set()
    assert [job.result.result(10) for job in jobs[:10] + jobs[15:]] == [*range(10), *range(15, 20)]
    assert set(seen) == {'translators'}
    assert made.wait_for('b', 1.0) == 1.0
    made.stop()
    assert not made.is_running(10)


def test_clients_take_turns_at_what_is_compiled() -> None:
    made, order = batcher(), []
    jobs = []
    for client, count in (('a', 6), ('b', 1)):
        for number in range(count):
            program = Program()
            program.gate.set()
            program.compile = partial(finish, program, order, client)
            jobs.append(Job(client, number, list, (client, number), needs=lambda size, program=program: [program]))
    results_of(made, jobs)
    assert 'b' in order[:3]


def finish(program: Program, order: list[str], name: str, among: Sequence[Any]) -> None:
    assert among == [program]
    time.sleep(0.01)
    order.append(name)
    program.is_ready = True


class Forgotten:
    """A program for which there is room only with those that it is needed among."""

    def __init__(self, shelf: list[Any], compiled: list[Any]) -> None:
        self.shelf, self.compiled = shelf, compiled

    @property
    def is_ready(self) -> bool:
        return self in self.shelf

    def compile(self, among: Sequence[Any]) -> None:
        time.sleep(0.02)
        self.compiled.append(self)
        self.shelf[:] = [program for program in {*self.shelf, self} if program in among]


def test_what_was_compiled_for_a_batch_is_kept_until_it_has_run() -> None:
    made, shelf, compiled = batcher(), [], []
    jobs = []
    for client in ('a', 'b', 'c'):
        programs = [Forgotten(shelf, compiled), Forgotten(shelf, compiled)]
        jobs.append(Job(client, 1, list, client, needs=lambda size, programs=programs: programs))

    def busy(lines: list[Any]) -> list[Any]:
        time.sleep(0.3)  # all three could be compiled meanwhile
        return lines

    results_of(made, [*jobs, Job('d', 1, busy, 'd')])
    assert len(compiled) == 6


def test_a_program_that_cannot_be_compiled_fails_its_own_batch_alone() -> None:
    made, program = batcher(), Program()
    program.compile = lambda among: 1 / 0
    failing, other = Job('a', 1, list, 0, needs=lambda size: [program]), Job('a', 2, list, 1)
    made.submit([failing, other])
    made.start()
    with pytest.raises(ZeroDivisionError):
        failing.result.result(10)
    assert other.result.result(10) == 2
    made.stop()
    assert not made.is_running(10)


def test_who_waits_for_programs_learns_that_none_is_compiled_any_more(capsys: pytest.CaptureFixture[str]) -> None:
    made, usual = batcher(), Program()
    jobs = [Job('a', number, list, number, needs=lambda size: [Program()]) for number in range(3)]

    def fail_late(among: Sequence[Any]) -> None:
        while made.compilations.num_left() < 1 + len(jobs):
            time.sleep(0.01)
        fail()

    usual.compile = fail_late
    made.compilations.ask([usual])
    assert all(isinstance(result, ThreadFailed) for result in results_of(made, jobs))
    assert 'the reason' in capsys.readouterr().err
    assert made.compilations.num_left() == 1  # the one that failed
    late = Job('a', 4, list, 0)
    made.compilations.ask([usual], 'a', [late])
    assert late.result.done()
