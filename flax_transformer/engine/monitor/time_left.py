"""An estimate of the time until the last step."""

import math
import time
from collections.abc import Callable, Mapping

_MEMORY = 120.0  # seconds of training after which a measurement has lost 63 % of its weight


class TimeLeft:
    """Times steps, and the phases between them, to estimate what is left of both. Compiling is counted in neither.

    The seconds per step are a running mean; of a phase, the last one counts, since the first also compiles.
    """

    def __init__(
        self,
        steps: int,
        first_step: int,
        *,
        every: Mapping[str, int] | None = None,
        known: Mapping[str, float] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Args:
        every: steps between two phases of a name; each comes after the last step, too.
        known: seconds per step ('training') and of phases as an earlier start measured them.
        """
        self._steps, self._step, self._clock = steps, first_step, clock
        self._every, self._took = dict(every or {}), dict(known or {})
        per_step = self._took.pop('training', None)
        self._seconds, self._counted = (0.0, 0) if per_step is None else (per_step, 1)
        self._phase, self._since = 'compiling', clock()

    @property
    def phase(self) -> str:
        """The phase under way, 'compiling' at first; '' while training."""
        return self._phase

    def enter(self, phase: str) -> None:
        """Begins a phase, which the next step ends; all steps so far are done."""
        self._pass_time(steps=1)
        self._phase = phase

    def advance(self, step: int) -> None:
        """Takes in that `step` has been dispatched, and that all before it are done."""
        self._pass_time(steps=step - self._step)
        self._phase, self._step = '', step

    def _pass_time(self, steps: int) -> None:
        """Books the time since the last event on the phase, or on `steps` of training."""
        now = self._clock()
        seconds, self._since = now - self._since, now
        if self._phase:
            self._took[self._phase] = seconds
        else:
            kept = math.exp(-seconds / _MEMORY)
            self._seconds, self._counted = self._seconds * kept + seconds, self._counted * kept + steps

    def __call__(self) -> float | None:
        """Seconds from now to the end; None before a step has been timed."""
        if not self._counted:
            return None
        left = (self._steps - self._step) * self._seconds / self._counted
        for phase, every in self._every.items():
            left += self._took.get(phase, 0.0) * _phases_left(self._step, self._steps, every)
        return left


def _phases_left(step: int, steps: int, every: int) -> int:
    """Multiples of `every` after `step` up to `steps`, and one after the last step."""
    return steps // every - step // every + (steps % every > 0 and step < steps)
