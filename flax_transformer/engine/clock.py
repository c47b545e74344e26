"""Training that lasts `training.minutes`: how many steps fit into what is left of them."""

import contextlib
import math
import sys
import time
from collections.abc import Iterator
from typing import Any

from .config import LoopConfig

_TOLERANCE = 0.02  # share of the minutes by which the end may be missed before the steps change
_LOOKS = 16  # at least so many in what is left: a machine that slows down as much still keeps the minutes
_TOLD = 0.8, 1.25  # factors on the number of steps within which no other is said
FIRST_LOOK = 2  # steps of a start; the first compiles


class Clock:
    """The steps that fit into `training.minutes`, which process 0 decides and the others follow.

    The minutes begin after the first step, which compiles; evaluations and saves are part of them.
    """

    def __init__(self, config: LoopConfig, saved: dict[str, Any] | None, step: int) -> None:
        """Continues after `step` from what `state` returned; None: from a run without a clock."""
        self._config = config
        self._seconds = 60 * config.minutes
        saved = saved or {'elapsed': self._seconds * step / config.steps}
        is_same = saved.get('minutes') == config.minutes
        self.steps: int = saved['steps'] if is_same else config.steps
        self._next: int = saved['next'] if is_same else step + FIRST_LOOK
        self._elapsed: float = saved['elapsed']  # before `_began`
        self._pace: float | None = saved.get('pace')  # seconds of a step
        self._evaluations: list[float] = saved.get('evaluations', [])  # seconds of the last two
        self._said: int = saved.get('said', 0)  # the steps that the user was told of
        self._began: float | None = None
        self._last = step, self._elapsed  # of the last look, without evaluations since

    def state(self) -> dict[str, Any]:
        """What training goes on with, to the bit until the next look, for JSON."""
        known = {'minutes': self._config.minutes, 'steps': self.steps, 'next': self._next, 'said': self._said}
        measured = {'elapsed': self._time(), 'pace': self._pace, 'evaluations': [*self._evaluations]}
        return known | measured

    def begin(self, step: int) -> None:
        """Call after the first step of a start."""
        self._began = time.perf_counter()
        self._last = step, self._elapsed

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Tells the time inside from that of steps."""
        began = self._time()
        yield
        seconds = self._time() - began
        self._evaluations = [*self._evaluations, seconds][-2:]
        self._last = self._last[0], self._last[1] + seconds

    def look(self, step: int) -> str | None:
        """Decides after a step how many there will be; returns a message if their number changes, perhaps ''."""
        if step < self._next:
            return None
        from .devices import multihost  # imports JAX

        before = self.steps
        decided = self._decided(step) if multihost.is_first() else 0
        self.steps = int(multihost.broadcast(f'the steps after step {step}', str(decided)))
        left = self.steps - step
        # All processes must look after the same steps, and so by what they share.
        self._next = step + max(1, min(step, left // _LOOKS))
        return None if self.steps == before else self._message(step)

    def _decided(self, step: int) -> int:
        last, since = self._last
        time = self._time()
        pace = (time - since) / max(step - last, 1)
        self._pace = pace if self._pace is None else (self._pace + pace) / 2
        self._last = step, time
        # The first evaluation also compiles.
        evaluation = min(self._evaluations) if len(self._evaluations) > 1 else 0.0
        usual = max(self._pace + evaluation / self._config.evaluate_every, 1e-9)
        left = self._seconds - time - evaluation  # there is one after the last step, too
        if abs((self.steps - step) * usual - left) <= _TOLERANCE * self._seconds:
            return self.steps
        return min(step + max(math.floor(left / usual), 0), self._config.max_steps or sys.maxsize)

    def _message(self, step: int) -> str:
        if self._said and _TOLD[0] < self.steps / self._said < _TOLD[1]:
            return ''
        self._said = self.steps
        return f'step {step}: {self.steps:,} steps fit training.minutes={self._config.minutes:g}; the schedule follows'

    def _time(self) -> float:
        return self._elapsed + (0.0 if self._began is None else time.perf_counter() - self._began)
