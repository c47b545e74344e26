"""The loop around the step: metrics, evaluations, checkpoints, skipped steps and requests to stop."""

import contextlib
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import grain
import jax
import numpy as np

from flax_transformer.common.errors import Interrupted, UserError

from .batches import Data
from .config import LoopConfig
from .monitor.progress import Progress, checkpoint_metrics
from .monitor.reporter import Reporter
from .non_finite import NotFinite
from .preemption import Stop
from .task import Batch, Sums, TrainState
from .trainer import Trainer

Scores = dict[str, Any]


class Profiler:
    """Traces `steps` steps from step `first` into RUN/profile by jax.profiler; nothing if `first` is 0."""

    def __init__(self, run: Path, first: int, steps: int, say: Callable[[str], None]) -> None:
        self._folder = run / 'profile'
        self._say = say
        self._first = first
        self._last = first + steps - 1
        self._is_on = False

    def begin(self, step: int) -> None:
        """Call before a step is dispatched."""
        if step == self._first:
            jax.profiler.start_trace(self._folder)
            self._is_on = True

    def end(self, step: int, results: Any) -> None:
        if self._is_on and step == self._last:
            jax.block_until_ready(results)
            self.close()
            self._say(f'steps {self._first} to {step} are traced in {self._folder}: `tensorboard --logdir` shows them')

    def close(self) -> None:
        """Ends the trace if training ends before it does."""
        if self._is_on:
            self._is_on = False
            jax.profiler.stop_trace()


class _Pending(NamedTuple):
    step: int
    batch: Batch
    metrics: Sums
    position: Any  # the batch's, in the data


@dataclass
class Loop:
    """Trains to the config's last step, or until validation has stopped improving."""

    trainer: Trainer
    batches: grain.DatasetIterator  # those of `data`, where the first state is, as `progress` is
    progress: Progress
    data: Data
    # save(state, metrics, progress, is_last=...), with validation metrics ({} if not evaluated), and progress as JSON.
    save: Callable[..., None]
    reporter: Reporter
    validate: Callable[[TrainState], Scores] | None  # what is cut short is validated again at the next start
    stop: Stop
    profiler: Profiler
    note_steps: Callable[[int], None]  # writes another number of steps into the run

    def __post_init__(self) -> None:
        self._clock = self.progress.clock
        self._window = self.progress.window
        self._early_stopping = self.progress.early_stopping
        self._compiled: set[str] = set()  # shapes of batches
        self._pending: _Pending | None = None

    def run(self, state: TrainState) -> TrainState:
        """The state after the last step.

        Raises Interrupted, after saving, if asked to stop, and NotFinite after max_skipped_steps skipped steps in a
        row.
        """
        first = int(state.step)
        if self.progress.owes_evaluation:
            scores = self._validate(state, first)
            self._save_evaluated(state, first, scores)  # replaces the checkpoint without them
        for step in itertools.count(first + 1):
            if step > self._config.steps or self._early_stopping.is_over:
                break
            state = self._train(state, step)
            is_changed = self._look_at_clock(step)
            is_evaluated = self._is_due(step, self._config.evaluate_every)
            is_saved = self._is_due(step, self._config.checkpoint_every) or bool(self.stop.after(step))
            # What the clock decided must not be decided otherwise when a killed run goes on from an earlier checkpoint.
            is_saved = is_saved or (is_changed and (first > 0 or step > self._config.checkpoint_every))
            self._report(state, step, is_interrupted=is_evaluated or is_saved)
            scores = self._validate(state, step) if is_evaluated else {}
            if is_saved or self._early_stopping.is_over:
                self._save_evaluated(state, step, scores)
            if is_saved and self.stop.after(step) and step < self._config.steps:
                raise self._stopped(step)
        return state

    @property
    def _config(self) -> LoopConfig:
        return self.trainer.config.training

    def _look_at_clock(self, step: int) -> bool:
        """Whether the number of steps has changed, to what fits into training.minutes."""
        if self._clock is None or not self._clock.look(step):
            return False
        for take in (self.trainer.set_steps, self.reporter.set_steps, self.note_steps):
            take(self._clock.steps)
        return True

    def _is_due(self, step: int, every: int) -> bool:
        return step % every == 0 or step == self._config.steps

    def _train(self, state: TrainState, step: int) -> TrainState:
        """Dispatches one step, then reads the metrics of the previous one, so that devices never wait for Python."""
        is_first = not self._compiled
        if is_first:  # an evaluation that was owed may have come before
            self.reporter.phase('compiling')
        # The first batch waits for the first plan, the first call for the compiler: neither is the speed of training.
        with self._window.pause() if is_first else self._window.waiting():
            position = self.batches.get_state()
            batch = next(self.batches)
        self.profiler.begin(step)
        shapes = str(jax.tree.map(np.shape, batch))
        is_new = shapes not in self._compiled
        self._compiled.add(shapes)
        began = time.perf_counter()
        with self._window.pause() if is_new else contextlib.nullcontext():
            state, metrics = self.trainer.step(state, batch)
        if is_first and self._clock:
            self._clock.begin(step)
        elif is_new and self._clock:
            self._clock.leave_out(time.perf_counter() - began)
        self.profiler.end(step, metrics)
        self._read_pending(state)
        self._pending = _Pending(step, batch, metrics, position)
        self.reporter.advance(step)
        return state

    def _report(self, state: TrainState, step: int, *, is_interrupted: bool) -> None:
        """Reports the steps since the last report if due; reads this step's metrics now if they cannot wait."""
        config = self._config
        # Evaluations and saves need all metrics so far. While steps are skipped, NotFinite would come a batch too late.
        is_suspicious = self._window.skipped_in_a_row or config.max_skipped_steps == 1
        if is_interrupted or is_suspicious or step % config.log_every == 0:
            self._read_pending(state)
        if self._is_due(step, config.log_every) and self._window.steps:
            rate = self.trainer.learning_rate(step - self._window.skipped_in_all)  # skipped steps do not advance it
            smoothed = {'loss_smoothed': self.progress.spikes.mean['loss'], 'learning_rate': float(rate)}
            passes = self.data.epoch(self.batches.get_state())
            epoch = {} if passes is None else {'epoch': round(passes, 4)}
            self.reporter.train(step, epoch | self._window.close(self.trainer.task) | smoothed)

    def _read_pending(self, state: TrainState) -> None:
        if self._pending is None:
            return
        step, batch, metrics, position = self._pending
        self._pending = None
        metrics = {name: float(value) for name, value in jax.device_get(metrics).items()}
        self._window.add(metrics)
        if metrics['skipped']:
            self.reporter.say(f'step {step}: loss or gradients are not finite; the update is skipped')
            if self._window.skipped_in_a_row >= self._config.max_skipped_steps:
                raise NotFinite(step, batch, state)
            return
        loss = metrics['loss'] / max(metrics[self.trainer.task.counts[0]], 1.0)
        if spike := self.progress.spikes.add(metrics | {'loss': loss}):
            self.reporter.spike(step, spike, self.data.describe(position))

    def _validate(self, state: TrainState, step: int) -> Scores:
        if self.validate is None:
            self.progress.owes_evaluation = False
            return {}
        if self.stop.after(step):  # an evaluation may take minutes; a scheduler waits for seconds
            self._save_unevaluated(state, step)
            raise self._stopped(step)

        self.reporter.phase('evaluating')
        began = time.perf_counter()
        with self._window.pause():
            try:
                # Several processes evaluate together: none may leave alone.
                with self.stop.deferred(self.stop.shared is not None):
                    scores = self.validate(state)
                # JSON takes no arrays of one number.
                scores = {name: x.item() if hasattr(x, 'item') else x for name, x in scores.items()}
                if scores and self._config.best_by not in scores:
                    raise UserError(
                        f'training.best_by={self._config.best_by!r}: the validation gives {", ".join(scores)}; '
                        'choose one of them'
                    )
            except (Exception, Interrupted) as reason:
                # Neither an error in the evaluation nor a signal during it may lose the training so far.
                if self.stop.shared is None:
                    self._save_unevaluated(state, step)
                raise (self._stopped(step) if isinstance(reason, Interrupted) else reason) from None

        seconds = time.perf_counter() - began
        if self._clock:
            self._clock.add_evaluation(seconds)
        self.progress.owes_evaluation = False
        if scores:
            self._early_stopping.add(step, scores)
            self.reporter.evaluation(step, scores, seconds=seconds)
            if self._early_stopping.is_over:
                self.reporter.say(f'step {step}: {self._early_stopping}: training stops (training.patience)')
        return scores

    def _save_evaluated(self, state: TrainState, step: int, scores: Scores) -> None:
        # A checkpoint that is there only because of a request to stop must not become the best one.
        is_scored = self._is_due(step, self._config.checkpoint_every) or self._early_stopping.is_over
        self._save_state(state, step, checkpoint_metrics(scores) if is_scored else {})

    def _save_unevaluated(self, state: TrainState, step: int) -> None:
        if not self.progress.owes_evaluation:  # else the checkpoint that training resumed from says so already
            self.progress.owes_evaluation = True
            self._save_state(state, step, {})

    def _save_state(self, state: TrainState, step: int, metrics: dict[str, float]) -> None:
        is_last = bool(self.stop.after(step)) or self._early_stopping.is_over or step >= self._config.steps
        self.reporter.phase('saving')
        with self._window.pause():
            self.save(state, metrics, self.progress.to_json(), is_last=is_last)

    def _stopped(self, step: int) -> Interrupted:
        reason = self.stop.after(step)
        return Interrupted(f'{reason}: stopped after step {step}, which is saved; the same command goes on')
