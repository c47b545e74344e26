"""Training that lasts `training.minutes`: how many steps fit into what is left of them."""

import sys
import time
from typing import Any

from .config import LoopConfig

_TOLERANCE = 0.02  # share of the minutes by which the end may be missed before the steps change
_LOOKS = 16  # at least so many in what is left: a machine that becomes as much slower still keeps the minutes
_CERTAIN = 10  # steps, before which their pace is too uncertain to be spoken of
FIRST_LOOK = 2  # steps of a start; the first compiles


class Clock:
    """The number of steps, which process 0 decides.

    The minutes begin after the first step, which compiles; evaluations and saves are part of them, compiling for other
    shapes is not.
    """

    def __init__(self, config: LoopConfig, saved: dict[str, Any] | None, step: int) -> None:
        """Continues after `step` from what `state` returned; None: the minutes begin now."""
        self._config = config
        self._seconds = 60 * config.minutes
        self._limits = {'minutes': config.minutes, 'max_steps': config.max_steps}
        known = {'steps': config.steps, 'next': step + FIRST_LOOK, 'elapsed': 0.0}
        if saved:
            known |= saved if self._limits.items() <= saved.items() else {'elapsed': saved['elapsed']}
        self.steps: int = known['steps']
        self._next: int = known['next']
        self._elapsed: float = known['elapsed']  # before `_began`
        self._pace: float | None = known.get('pace')  # seconds of a step
        self._evaluation: float | None = known.get('evaluation')  # seconds; 0.0: of the first, which also compiles
        self._began: float | None = None
        self._last = step, self._elapsed  # of the last look, without evaluations since
        self._is_told = False

    def state(self) -> dict[str, Any]:
        """What training goes on with, to the bit until the next look, for JSON."""
        decided = {'steps': self.steps, 'next': self._next, 'pace': self._pace, 'evaluation': self._evaluation}
        return self._limits | decided | {'elapsed': self._time()}

    def begin(self, step: int) -> None:
        """Call after the first step of a start."""
        self._began = time.perf_counter()
        self._last = step, self._elapsed

    def leave_out(self, seconds: float) -> None:
        self._elapsed -= seconds

    def add_evaluation(self, seconds: float) -> None:
        self._evaluation = 0.0 if self._evaluation is None else seconds
        self._last = self._last[0], self._last[1] + seconds

    def look(self, step: int) -> bool:
        """Decides after a step how many there will be, and says so once; returns whether it is another number."""
        if step < self._next:
            return False
        from .devices import multihost  # imports JAX

        before = self.steps
        decided = self._decided(step) if multihost.is_first() else 0
        self.steps = int(multihost.broadcast(f'the steps after step {step}', str(decided)))
        # All processes must look after the same steps, and so by what they share.
        self._next = step + max(1, min(step, (self.steps - step) // _LOOKS))
        if not self._is_told and self.steps != self._config.steps and step + 1 >= min(_CERTAIN, self.steps):
            self._is_told = True
            multihost.say(
                f'step {step}: {self.steps:,} steps fit training.minutes; they and the schedule follow the clock'
            )
        return self.steps != before

    def _decided(self, step: int) -> int:
        now = self._time()
        last, since = self._last
        self._last = step, now
        pace = (now - since) / max(step - last, 1)
        self._pace = pace if self._pace is None else (self._pace + pace) / 2
        evaluation = self._evaluation or 0.0
        usual = max(self._pace + evaluation / self._config.evaluate_every, 1e-9)
        left = self._seconds - now - evaluation  # there is one after the last step, too
        if abs((self.steps - step) * usual - left) <= _TOLERANCE * self._seconds:
            return self.steps
        return min(step + max(int(left / usual), 0), self._config.max_steps or sys.maxsize)

    def _time(self) -> float:
        return self._elapsed + (0.0 if self._began is None else time.perf_counter() - self._began)
