"""The last line of a terminal while a run works: what it is doing, how far it is, how long it will take."""

import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from tqdm import tqdm

from flax_transformer.common.quiet import shows_progress

# The bar's length is fixed, or it would jump whenever the figures change.
_LAYOUT = '{percentage:3.0f}% {bar:10} {n_fmt}/{total_fmt}{postfix}'


def is_terminal() -> bool:
    """Whether progress is wanted and can be redrawn."""
    return shows_progress() and os.environ.get('TERM') != 'dumb'


def columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def showing(phase: str) -> tqdm:
    """A context that names a phase in the terminal's last line."""
    return tqdm(desc=phase, bar_format='{desc}', file=sys.stderr, leave=False, disable=not is_terminal())


class ProgressBar:
    """Steps, phase and figures of training in the last line of a terminal; does nothing elsewhere."""

    def __init__(self, steps: int, first_step: int) -> None:
        self._bar = tqdm(
            total=steps,
            initial=first_step,
            bar_format=_LAYOUT,
            ncols=columns() - 1,  # a full line would wrap on some terminals
            file=sys.stderr,
            leave=False,
            disable=not is_terminal(),
        )

    def show(self, step: int, parts: Sequence[str], *, now: bool = False) -> None:
        """Redraws the line, at most ten times a second unless `now`."""
        self._bar.ncols = columns() - 1
        self._bar.set_postfix_str(', '.join(parts), refresh=False)
        self._bar.update(step - self._bar.n)
        if now:
            self._bar.refresh()

    def close(self) -> None:
        self._bar.close()


_MEMORY = 120.0  # seconds of training after which a measurement has lost 63 % of its weight


class TimeLeft:
    """Times steps, and the phases between them, to estimate what is left of both. Compiling counts as neither.

    The seconds per step are a running mean; a phase takes as long as its last one did, since the first also compiles.
    """

    def __init__(
        self,
        steps: int,
        first_step: int,
        *,
        every: Mapping[str, int] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`every` is each phase's interval in steps; the last step has one too."""
        self._steps = steps
        self._step = first_step
        self._clock = clock
        self._every = dict(every or {})
        self._took: dict[str, float] = {}
        self._seconds = 0.0
        self._counted = 0.0
        self.phase = 'compiling'  # the one under way; '' while training
        self._since = clock()

    def enter(self, phase: str) -> None:
        """Begins a phase, which the next step ends; all steps so far are done."""
        self._pass_time(steps=1)
        self.phase = phase

    def advance(self, step: int) -> None:
        """Notes that `step` has been dispatched and that all before it are done."""
        self._pass_time(steps=step - self._step)
        self.phase = ''
        self._step = step

    def _pass_time(self, steps: int) -> None:
        """Books the time since the last event on the phase, or on `steps` of training."""
        now = self._clock()
        seconds = now - self._since
        self._since = now
        if self.phase:
            self._took[self.phase] = seconds
        else:
            kept = math.exp(-seconds / _MEMORY)
            self._seconds = self._seconds * kept + seconds
            self._counted = self._counted * kept + steps

    def __call__(self) -> float | None:
        """Seconds from now to the end; None before a step has been timed."""
        if not self._counted:
            return None
        left = (self._steps - self._step) * self._seconds / self._counted
        for phase, every in self._every.items():
            times = self._steps // every - self._step // every
            if self._steps % every and self._step < self._steps:
                times += 1  # after the last step
            left += self._took.get(phase, 0.0) * times
        return left
