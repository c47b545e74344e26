"""Traces some steps by jax.profiler, for TensorBoard's profile plugin or Perfetto."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

FOLDER = 'profile'


class Profiler:
    """Traces `steps` steps from step `first` into RUN/profile; nothing if `first` is 0."""

    def __init__(self, run: Path, first: int, steps: int, say: Callable[[str], None]) -> None:
        self._folder, self._say = run / FOLDER, say
        self._first, self._last = first, first + steps - 1
        self._is_on = False

    def begin(self, step: int) -> None:
        """Call before a step is dispatched."""
        if step == self._first:
            jax.profiler.start_trace(self._folder)
            self._is_on = True

    def end(self, step: int, results: Any) -> None:
        """Call after a step is dispatched, with its results."""
        if self._is_on and step == self._last:
            jax.block_until_ready(results)
            self.close()
            self._say(f'steps {self._first} to {step} are traced in {self._folder}: `tensorboard --logdir` shows them')

    def close(self) -> None:
        """Ends the trace if training ends before it does."""
        if self._is_on:
            self._is_on = False
            jax.profiler.stop_trace()
