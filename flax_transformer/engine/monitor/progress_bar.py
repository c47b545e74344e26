"""The last line of a terminal while a run works: what it is doing, how far it is, how long it will take."""

import os
import sys
import time
from collections.abc import Callable, Sequence

from tqdm import tqdm

from flax_transformer.common.quiet import shows_progress

# The bar's length is fixed, or it would jump whenever the figures change.
_LAYOUT = '{percentage:3.0f}% {bar:10} {n_fmt}/{total_fmt}{postfix}'


def is_terminal() -> bool:
    return shows_progress() and os.environ.get('TERM') != 'dumb'


def columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def showing(phase: str) -> tqdm:
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

    def set_steps(self, steps: int) -> None:
        self._bar.total = steps

    def close(self) -> None:
        self._bar.close()


class TimeLeft:
    """The time left, by the mean of the steps so far, with what is done between them; compiling does not count."""

    def __init__(self, steps: int, first_step: int, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self.steps = steps
        self._step = first_step
        self._clock = clock
        self._began: tuple[int, float] | None = None  # the first step that was dispatched, and when
        self.phase = 'compiling'  # the one under way; '' while training

    def advance(self, step: int) -> None:
        if self._began is None:
            self._began = step, self._clock()
        self.phase = ''
        self._step = step

    def __call__(self) -> float | None:
        """Seconds from now to the end; None before a step has been timed."""
        if self._began is None or self._step == self._began[0]:
            return None
        first, since = self._began
        return (self._clock() - since) / (self._step - first) * (self.steps - self._step)
