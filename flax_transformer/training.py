"""Training: one pure step, and the loop around it."""

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax

from flax_transformer.checkpoints import BEST_METRIC
from flax_transformer.config import Config
from flax_transformer.data import Batch
from flax_transformer.losses import cross_entropy
from flax_transformer.model import Transformer, shift_right
from flax_transformer.optimizer import make_optimizer, make_schedule
from flax_transformer.parallel import Devices
from flax_transformer.reporting import Reporter
from flax_transformer.train_state import TrainState

Metrics = dict[str, jax.Array]
LossFn = Callable[..., tuple[jax.Array, Metrics]]


def loss_sums(
    params: Any,
    batch: Batch,
    dropout_key: jax.Array | None,
    *,
    model: Transformer,
    label_smoothing: float,
    corpora: Sequence[str] = (),
) -> tuple[jax.Array, Metrics]:
    """Sums over the batch's target tokens: the smoothed loss, in nats; with it the unsmoothed one and the counts.

    Without a key nothing is dropped. Where the batch says of which corpus its tokens are, the unsmoothed loss and the
    count are given of each of `corpora` too, by its name.
    """
    logits = model.apply(
        {'params': params},
        batch.source,
        shift_right(batch.target, model.config.pad_id, batch.target_positions),
        source_segments=batch.source_segments,
        target_segments=batch.target_segments,
        source_positions=batch.source_positions,
        target_positions=batch.target_positions,
        deterministic=dropout_key is None,
        rngs=None if dropout_key is None else {'dropout': dropout_key},
    )
    weights = batch.target_segments > 0
    loss, count = cross_entropy(logits, batch.target, weights, label_smoothing=label_smoothing)
    nll, _ = cross_entropy(logits, batch.target, weights)
    source_tokens = (batch.source_segments > 0).sum()
    sums = {'loss': loss, 'nll': nll, 'target_tokens': count, 'source_tokens': source_tokens}
    if batch.corpora is not None:
        for number, name in enumerate(corpora):
            of_corpus = weights & (batch.corpora == number)
            sums[f'nll/{name}'], sums[f'target_tokens/{name}'] = cross_entropy(logits, batch.target, of_corpus)
    return loss, sums


def train_step(
    state: TrainState,
    batch: Batch,
    key: jax.Array,
    *,
    loss_fn: LossFn,
    tx: optax.GradientTransformation,
    ema_decay: float = 0.0,
    axis_name: str | None = None,
) -> tuple[TrainState, Metrics]:
    """One update. Metrics are sums over the batch, but for grad_norm.

    Losses and gradients are sums over tokens, divided once by the count over all devices: the mean of the devices'
    means would weigh tokens by the company they happen to be in.
    """
    key = jax.random.fold_in(key, state.step)
    if axis_name:
        key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
    grads, sums = jax.grad(loss_fn, has_aux=True)(state.params, batch, key)
    if axis_name:
        grads, sums = jax.lax.psum((grads, sums), axis_name)
    grads = jax.tree.map(lambda g: g / jnp.maximum(sums['target_tokens'], 1.0), grads)
    updates, opt_state = tx.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    step = state.step + 1
    ema = None if state.ema is None else _moving_average(state.ema, params, step, ema_decay)
    return TrainState(step, params, opt_state, ema), sums | {'grad_norm': optax.tree.norm(grads)}


def _moving_average(ema: Any, params: Any, step: jax.Array, decay: float) -> Any:
    # The average starts short, or the random first parameters would stay in it for thousands of steps.
    decay = jnp.minimum(decay, (1.0 + step) / (10.0 + step))
    return jax.tree.map(lambda old, new: decay * old + (1.0 - decay) * new, ema, params)


def eval_step(
    params: Any, batch: Batch, _: jax.Array | None, *, loss_fn: LossFn, axis_name: str | None = None
) -> Metrics:
    """The sums of a batch, without dropout."""
    _, sums = loss_fn(params, batch, None)
    return jax.lax.psum(sums, axis_name) if axis_name else sums


class Trainer:
    """The compiled steps of a config on its devices."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.devices = Devices(config.parallel)
        self.devices.check_rows(config.rows_per_step)
        self.model = Transformer(config.model)
        shape = {'d_model': config.model.d_model, 'steps': config.training.steps}
        self.tx = make_optimizer(config.optimizer, **shape)
        self.learning_rate = make_schedule(config.optimizer, **shape)
        names = tuple(corpus.name for corpus in config.data.corpora)
        smoothing = config.training.label_smoothing
        loss_fn = partial(loss_sums, model=self.model, label_smoothing=smoothing, corpora=names)
        decay = config.optimizer.ema_decay
        step = partial(train_step, loss_fn=loss_fn, tx=self.tx, ema_decay=decay)
        self._train_step = self.devices.compile(step, donate_state=True)
        self._eval_step = self.devices.compile(partial(eval_step, loss_fn=loss_fn))
        self._key = jax.random.key(config.seed + 1)  # not that of the initial parameters

    def step(self, state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
        """One update over all devices; `state` is given away. The metrics are not waited for."""
        return self._train_step(state, self.devices.split(batch), self._key)

    def evaluate(self, params: Any, batches: Iterable[Batch]) -> dict[str, float]:
        """Smoothed loss, unsmoothed negative log-likelihood and perplexity per target token, over all batches."""
        return mean_loss(self._eval_step(params, self.devices.split(batch), self._key) for batch in batches)


def mean_loss(sums_of_batches: Iterable[Metrics]) -> dict[str, float]:
    """Sums over all batches, one division."""
    totals: dict[str, float] = {}
    for sums in sums_of_batches:
        totals = {name: totals.get(name, 0.0) + float(value) for name, value in jax.device_get(sums).items()}
    return per_token(totals)


def per_token(sums: dict[str, float]) -> dict[str, float]:
    """Loss and negative log-likelihood per target token, and perplexity, from their sums; of each corpus the second."""
    count = max(sums['target_tokens'], 1.0)
    nll = sums['nll'] / count
    of_corpora = {
        name: value / sums[name.replace('nll/', 'target_tokens/', 1)]
        for name, value in sums.items()
        if name.startswith('nll/') and sums[name.replace('nll/', 'target_tokens/', 1)]
    }
    return {
        'loss': sums['loss'] / count,
        'nll': nll,
        'perplexity': math.exp(min(nll, 80.0)),
        'target_tokens': sums['target_tokens'],
        **of_corpora,
    }


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
