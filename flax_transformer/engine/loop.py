"""The loop around the step: metrics, evaluation, checkpoints, and what happens when something goes wrong."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax

from flax_transformer.data.bitext.batches import Batch
from flax_transformer.engine.monitor.early_stopping import Improvement, checkpoint_metrics
from flax_transformer.engine.monitor.loss_spikes import Spikes
from flax_transformer.engine.monitor.profiler import Profile
from flax_transformer.engine.monitor.reporter import Reporter
from flax_transformer.engine.preemption import Interrupted, Stop
from flax_transformer.engine.state import TrainState
from flax_transformer.engine.step import Metrics, Trainer, per_token

Progress = dict[str, Any]


class NotFinite(Exception):
    """So many steps in a row were not finite; with the last of them."""

    def __init__(self, step: int, batch: Batch, state: TrainState) -> None:
        super().__init__(f'step {step} is not finite')
        self.step, self.batch, self.state = step, batch, state


def fit(
    state: TrainState,
    batches: Iterator[Batch],
    trainer: Trainer,
    *,
    save: Callable[[TrainState, dict[str, float], Progress], None],
    reporter: Reporter,
    evaluate: Callable[[TrainState], dict[str, Any]],
    progress: Progress | None = None,
    stop: Stop | None = None,
    profile: Profile | None = None,
    place: Callable[[], Any] = lambda: None,
    sentences: Callable[[Any], Any] = lambda place: None,
) -> TrainState:
    """Trains from `state` to the config's last step, and saves, reports and evaluates on the way.

    It ends before where the validation score has not improved for `patience` evaluations.

    Args:
      batches: an iterator of Batch, at the position that belongs to `state`.
      save: saves a state, with its validation scores where it was measured, and with the loop's own progress (JSON);
        called every checkpoint_every steps, after the last, and when training is asked to stop.
      evaluate: validation metrics of a state, if any; called every evaluate_every steps and after the last.
      progress: what was saved with `state`, so that the metrics are those of a run without a break.
      place: the place in the data of the next batch; sentences: which ones are in the batch of a place, for JSON.

    Raises Interrupted, after saving, where `stop` asks for it, and NotFinite after max_skipped_steps skipped steps in
    a row. The metrics of a step are read after the next one is dispatched, so that the devices never wait for Python.
    """
    config, stop = trainer.config.training, stop or Stop()
    progress = progress or {}
    window = Window(progress.get('window'))
    improvement = Improvement(config.best_by, progress.get('improvement'))
    spikes = Spikes(config.spike_deviations, config.smoothing_steps, progress.get('spikes'))

    def so_far() -> Progress:
        return {'window': window.state(), 'improvement': improvement.state(), 'spikes': spikes.state()}

    def scores_of(state: TrainState, step: int) -> dict[str, Any]:
        with window.pause():
            try:
                # Several processes evaluate together: none may leave on its own.
                with stop.deferred(stop.shared is not None):
                    scores = evaluate(state)
            except (Exception, Interrupted) as reason:
                # Neither a fault in the evaluation nor its length must cost the training.
                if stop.shared is None:
                    save(state, {}, so_far() | {'evaluate': True})
                raise (stopped(step) if isinstance(reason, Interrupted) else reason) from None
        if scores:
            improvement.add(step, scores)
            reporter.evaluation(step, scores)
            if improvement.is_over(config.patience):
                reporter.say(f'step {step}: {improvement}: training stops (training.patience)')
        return scores

    def stopped(step: int) -> Interrupted:
        return Interrupted(f'{stop.after(step)}: stopped after step {step}, which is saved; the same command goes on')

    def read(step: int, batch: Batch, metrics: Metrics, place: Any) -> None:
        metrics = {name: float(value) for name, value in jax.device_get(metrics).items()}
        window.add(metrics)
        if not metrics['skipped']:
            count = max(metrics['target_tokens'], 1.0)
            of_step = {'loss': metrics['loss'] / count, 'grad_norm': metrics['grad_norm']}
            if spike := spikes.add(of_step):
                reporter.spike(step, spike, sentences(place))
        if window.skipped_in_a_row:
            reporter.say(f'step {step}: loss or gradients are not finite; the update is skipped')
            if window.skipped_in_a_row >= config.max_skipped_steps:
                raise NotFinite(step, batch, state)

    first, pending = int(state.step), None
    if progress.get('evaluate'):
        scores_of(state, first)
        if improvement.is_over(config.patience):
            return state
    for step in range(first + 1, config.steps + 1):
        with window.waiting():
            of_batch = place()
            batch = next(batches)
        if profile:
            profile.begin(step)
        state, metrics = trainer.step(state, batch)
        if profile:
            profile.end(step, metrics)
        if pending is not None:
            read(*pending)
        pending = step, batch, metrics, of_batch
        reporter.advance(step)
        is_last = step == config.steps
        is_evaluated = step % config.evaluate_every == 0 or is_last
        is_saved = step % config.checkpoint_every == 0 or is_last or bool(stop.after(step))
        # Where steps are skipped they are read at once: whoever stops must not have gone on with another batch.
        in_doubt = window.skipped_in_a_row or config.max_skipped_steps == 1
        # And before an evaluation, which saves where it fails.
        if in_doubt or is_saved or is_evaluated or step % config.log_every == 0:
            read(*pending)
            pending = None
        if (step % config.log_every == 0 or is_last) and window.steps:
            rate = trainer.learning_rate(step - window.skipped_in_all)  # skipped steps do not move the schedule
            smoothed = {'loss_smoothed': spikes.mean['loss'], 'learning_rate': float(rate)}
            reporter.train(step, window.close() | smoothed)
        scores: dict[str, Any] = {}
        if is_evaluated:
            scores = scores_of(state, step)
        is_over = improvement.is_over(config.patience)
        if is_saved or is_over:
            with window.pause():
                save(state, checkpoint_metrics(scores), so_far())
        if is_saved and stop.after(step) and not is_last:
            raise stopped(step)
        if is_over:
            break
    return state


class Window:
    """Sums over the steps since the last report, and the time that they took."""

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        """From what `state` gave, else empty."""
        self.skipped_in_all = self.skipped_in_a_row = 0
        self._reset()
        if state:
            self._sums, self.steps, self._skipped = dict(state['sums']), state['steps'], state['skipped']
            self._waited = state['waited']
            self._began -= state['seconds']
            self.skipped_in_all, self.skipped_in_a_row = state['skipped_in_all'], state['skipped_in_a_row']

    def _reset(self) -> None:
        self._sums: dict[str, float] = {}
        self.steps, self._skipped, self._waited, self._paused = 0, 0, 0.0, 0.0
        self._began = time.perf_counter()

    def state(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            'sums': self._sums,
            'steps': self.steps,
            'skipped': self._skipped,
            'waited': self._waited,
            'seconds': self._seconds(),
            'skipped_in_all': self.skipped_in_all,
            'skipped_in_a_row': self.skipped_in_a_row,
        }

    def add(self, metrics: Metrics) -> None:
        """Takes in the metrics of one step; one that was skipped is only counted."""
        if metrics['skipped']:
            self._skipped += 1
            self.skipped_in_all += 1
            self.skipped_in_a_row += 1
            return
        self.skipped_in_a_row = 0
        self.steps += 1
        for name, value in metrics.items():
            self._sums[name] = self._sums.get(name, 0.0) + float(value)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Counts the time within as waiting for data."""
        began = time.perf_counter()
        yield
        self._waited += time.perf_counter() - began

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Leaves the time within out: it is not training."""
        began = time.perf_counter()
        yield
        self._paused += time.perf_counter() - began

    def _seconds(self) -> float:
        return max(time.perf_counter() - self._began - self._paused, 1e-9)

    def close(self) -> dict[str, float]:
        """Averages since the last call, over the steps that were not skipped."""
        seconds, sums, steps = self._seconds(), self._sums, self.steps
        out = per_token(sums) | {
            'target_tokens': sums['target_tokens'] / steps,
            'source_tokens': sums['source_tokens'] / steps,
            'grad_norm': sums['grad_norm'] / steps,
            'skipped_steps': self._skipped,
            'target_tokens_per_second': sums['target_tokens'] / seconds,
            'seconds_per_step': seconds / (steps + self._skipped),
            'data_wait': self._waited / seconds,
        }
        self._reset()
        return out
