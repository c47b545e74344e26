"""The loop around the step: metrics, evaluation, checkpoints."""

import contextlib
import time
from collections.abc import Callable, Iterator

import jax

from flax_transformer.checkpoints import BEST_METRIC
from flax_transformer.data import Batch
from flax_transformer.reporting import Reporter
from flax_transformer.train_state import TrainState
from flax_transformer.training import Metrics, Trainer, per_token


def fit(
    state: TrainState,
    batches: Iterator[Batch],
    trainer: Trainer,
    *,
    save: Callable[[TrainState, dict[str, float]], None],
    reporter: Reporter,
    evaluate: Callable[[TrainState], dict[str, float]],
) -> TrainState:
    """Trains from `state` to the config's last step, and saves, reports and evaluates on the way.

    Args:
      batches: an iterator of Batch, at the position that belongs to `state`.
      save: saves a state, with the validation loss where it was measured; called every checkpoint_every steps and
        after the last.
      evaluate: validation metrics of a state, if any; called every evaluate_every steps and after the last.

    The metrics of a step are read after the next one is dispatched, so that the devices never wait for Python.
    """
    config = trainer.config.training
    window = Window()
    first, pending = int(state.step), None
    for step in range(first + 1, config.steps + 1):
        with window.waiting():
            batch = next(batches)
        state, metrics = trainer.step(state, batch)
        if pending is not None:
            window.add(jax.device_get(pending))
        pending = metrics
        reporter.advance(step)
        is_last = step == config.steps
        if step % config.log_every == 0 or is_last:
            window.add(jax.device_get(pending))
            pending = None
            reporter.train(step, window.close() | {'learning_rate': float(trainer.learning_rate(step))})
        scores: dict[str, float] = {}
        if step % config.evaluate_every == 0 or is_last:
            with window.pause():
                try:
                    scores = evaluate(state)
                except Exception:
                    save(state, {})  # a fault in the evaluation must not cost the training
                    raise
            if scores:
                reporter.evaluation(step, scores)
        if step % config.checkpoint_every == 0 or is_last:
            with window.pause():
                measured = {BEST_METRIC: scores['loss']} if 'loss' in scores else {}
                save(state, measured)
    return state


class Window:
    """Sums over the steps since the last report, and the time that they took."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._sums: dict[str, float] = {}
        self._steps, self._waited, self._paused = 0, 0.0, 0.0
        self._began = time.perf_counter()

    def add(self, metrics: Metrics) -> None:
        """Takes in the metrics of one step."""
        self._steps += 1
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

    def close(self) -> dict[str, float]:
        """Averages since the last call."""
        seconds = max(time.perf_counter() - self._began - self._paused, 1e-9)
        sums, steps = self._sums, max(self._steps, 1)
        out = per_token(sums) | {
            'target_tokens': sums['target_tokens'] / steps,
            'source_tokens': sums['source_tokens'] / steps,
            'grad_norm': sums['grad_norm'] / steps,
            'target_tokens_per_second': sums['target_tokens'] / seconds,
            'seconds_per_step': seconds / steps,
            'data_wait': self._waited / seconds,
        }
        self._reset()
        return out
