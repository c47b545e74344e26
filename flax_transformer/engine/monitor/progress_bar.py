"""The last line of a terminal while a run works: what it is doing, how far it is, how long it will take."""

import contextlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tqdm import tqdm

from flax_transformer.common.quiet import shows_progress

_REDRAW = 0.1  # seconds


def is_terminal() -> bool:
    """Whether progress is wanted and can be redrawn; a log file, a notebook and a dumb terminal cannot."""
    return shows_progress() and os.environ.get('TERM') != 'dumb'


def columns() -> int:
    """The terminal's width; 80 where it reports none."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


@contextlib.contextmanager
def showing(phase: str) -> Iterator[None]:
    """Names a phase in the last line of the terminal while it lasts."""
    if not is_terminal():
        yield
        return
    line = _LastLine(phase)
    try:
        yield
    finally:
        line.close()


class ProgressBar:
    """Steps, phase and figures of training in the last line of a terminal; does nothing elsewhere."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._line = _LastLine() if is_terminal() else None
        self._drawn = 0.0

    def show(self, step: int, parts: Sequence[str], *, now: bool = False) -> None:
        """Redraws the line, at most ten times a second unless `now`; `parts` in the order in which they matter."""
        if self._line is None or not (now or time.monotonic() - self._drawn >= _REDRAW):
            return
        self._drawn = time.monotonic()
        self._line.text = lambda width: progress_line(step, self._steps, parts, width=width)
        self._line.refresh()

    def close(self) -> None:
        if self._line is not None:
            self._line.close()


def progress_line(step: int, steps: int, parts: Sequence[str], *, width: int) -> str:
    """Percentage, bar, steps, and as many of the parts as fit into `width` columns.

    >>> progress_line(450, 1000, ['0:40 left', '3,430 tokens/s', 'loss 2.4'], width=50)
    ' 45% ━━┄┄┄┄ 450/1000  0:40 left  3,430 tokens/s'
    """
    done, columns = min(step / max(steps, 1), 1.0), width // 8
    # The bar's length depends on the terminal alone, or it would jump whenever the parts change.
    bar = '━' * int(done * columns) + '┄' * (columns - int(done * columns))
    line = f'{int(100 * done):3}% {bar} {step}/{steps}'
    for part in parts:
        if len(line) + 2 + len(part) > width:
            break
        line += f'  {part}'
    return line[:width]


class _LastLine(tqdm):
    """A line that `tqdm.write` writes above; its text is made for the terminal's width at the time."""

    def __init__(self, text: str = '') -> None:
        self.text = lambda width: text[:width]
        super().__init__(file=sys.stderr, leave=False)

    def __str__(self) -> str:
        return self.text(columns() - 1)  # a full line would wrap on some terminals

    @staticmethod
    def status_printer(file: Any) -> Any:
        def show(text: str) -> None:
            file.write(f'\r{text}\x1b[K')  # spaces instead would wrap once the terminal is narrower
            file.flush()

        return show


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
        known: Mapping[str, float] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`every`: each phase's interval in steps; the last step has one too. `known`: seconds of an earlier start."""
        self._steps, self._step, self._clock = steps, first_step, clock
        self._every, self._took = dict(every or {}), dict(known or {})
        per_step = self._took.pop('training', None)
        self._seconds, self._counted = (0.0, 0) if per_step is None else (per_step, 1)
        self.phase, self._since = 'compiling', clock()  # the phase under way; '' while training

    def enter(self, phase: str) -> None:
        """Begins a phase, which the next step ends; all steps so far are done."""
        self._pass_time(steps=1)
        self.phase = phase

    def advance(self, step: int) -> None:
        """Notes that `step` has been dispatched and that all before it are done."""
        self._pass_time(steps=step - self._step)
        self.phase, self._step = '', step

    def _pass_time(self, steps: int) -> None:
        """Books the time since the last event on the phase, or on `steps` of training."""
        now = self._clock()
        seconds, self._since = now - self._since, now
        if self.phase:
            self._took[self.phase] = seconds
        else:
            kept = math.exp(-seconds / _MEMORY)
            self._seconds, self._counted = self._seconds * kept + seconds, self._counted * kept + steps

    def __call__(self) -> float | None:
        """Seconds from now to the end; None before a step has been timed."""
        if not self._counted:
            return None
        step, steps = self._step, self._steps
        left = (steps - step) * self._seconds / self._counted
        for phase, every in self._every.items():
            # Each multiple of `every` has one after it, and so has the last step.
            times = steps // every - step // every + (steps % every > 0 and step < steps)
            left += self._took.get(phase, 0.0) * times
        return left
