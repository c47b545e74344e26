"""Training: one pure step, and what is compiled of a config."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax

from flax_transformer.data.bitext.batches import Batch
from flax_transformer.engine.accumulation import Passes, make_passes
from flax_transformer.engine.devices import multihost as processes
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.freezing import frozen_by, keep, stop_gradients
from flax_transformer.engine.losses import cross_entropy, sums_in_chunks, symmetric_divergence
from flax_transformer.engine.optimizer import make_optimizer, make_schedule
from flax_transformer.engine.state import TrainState, init_state
from flax_transformer.tasks.translation.config import Config
from flax_transformer.transformer.config import TransformerConfig
from flax_transformer.transformer.model import Transformer, output_names, shift_right

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
    loss_chunk: int = 0,
    r_drop_alpha: float = 0.0,
) -> tuple[jax.Array, Metrics]:
    """Sums over the batch's target tokens: the smoothed loss, in nats; with it the unsmoothed one and the counts.

    Without a key nothing is dropped. Where the batch says of which corpus its tokens are, the unsmoothed loss and the
    count are given of each of `corpora` too, by its name. The logits of `loss_chunk` target slots are in memory at
    once (0: of as many as `automatic_chunk` says).

    With `r_drop_alpha` there are two passes with different dropout, and how far their predictions are apart is added
    (R-Drop, Liang et al. 2021, eq. 4, halved: the mean of both passes' cross-entropies + alpha / 2 times the symmetric
    divergence, so that it compares with the loss of one pass). `kl` is the sum of that divergence.
    """
    passes = (dropout_key,)
    if r_drop_alpha and dropout_key is not None:
        passes = tuple(jax.random.split(dropout_key))
    hidden = tuple(_hidden(params, batch, key, model) for key in passes)
    weights = (batch.target_segments > 0).astype(jnp.float32)
    numbers = jnp.zeros_like(batch.target) if batch.corpora is None else batch.corpora

    def sums_of(params: Any, hidden: tuple[jax.Array, ...], data: tuple[jax.Array, ...]) -> tuple[jax.Array, Metrics]:
        targets, weights, numbers = data
        logits = [model.apply({'params': params}, of_pass, method='project') for of_pass in hidden]
        of_passes = [cross_entropy(of_pass, targets, label_smoothing=label_smoothing) for of_pass in logits]
        loss, nll = of_passes[0] if len(passes) == 1 else (sum(each) / 2 for each in zip(*of_passes, strict=True))
        sums = {'loss': (loss * weights).sum(), 'nll': (nll * weights).sum(), 'target_tokens': weights.sum()}
        for number, name in enumerate(corpora if batch.corpora is not None else ()):
            of_corpus = weights * (numbers == number)
            sums[f'nll/{name}'], sums[f'target_tokens/{name}'] = (nll * of_corpus).sum(), of_corpus.sum()
        if len(passes) == 2:
            sums['kl'] = (symmetric_divergence(*logits) * weights).sum()
            sums['loss'] += r_drop_alpha / 2 * sums['kl']
        return sums['loss'], sums

    loss, sums = sums_in_chunks(
        sums_of,
        {name: params[name] for name in output_names(model.config)},
        hidden,
        (batch.target, weights, numbers),
        width=max(1, (loss_chunk or automatic_chunk(model.config)) // len(batch.target) // len(passes)),
    )
    return loss, sums | {'source_tokens': (batch.source_segments > 0).sum()}


def _hidden(params: Any, batch: Batch, dropout_key: jax.Array | None, model: Transformer) -> jax.Array:
    """What the logits of a batch are made of, [B, T, D]."""
    return model.apply(
        {'params': params},
        batch.source,
        shift_right(batch.target, model.config.pad_id, batch.target_positions),
        source_segments=batch.source_segments,
        target_segments=batch.target_segments,
        source_positions=batch.source_positions,
        target_positions=batch.target_positions,
        deterministic=dropout_key is None,
        rngs=None if dropout_key is None else {'dropout': dropout_key},
        method='hidden',
    )


def automatic_chunk(config: TransformerConfig) -> int:
    """Target slots whose logits are in memory at once: 1,024, or more as long as they take no more than 32 MB."""
    return max(1024, 2**23 // config.vocab_size_of_target)


def train_step(
    state: TrainState,
    batch: Batch,
    key: jax.Array,
    *,
    loss_fn: LossFn,
    tx: optax.GradientTransformation,
    ema_decay: float = 0.0,
    is_frozen: Any = None,
    passes: Passes | None = None,
    axis_name: str | None = None,
) -> tuple[TrainState, Metrics]:
    """One update. Metrics are sums over the batch, but for grad_norm, and for `skipped`.

    Where the loss or the norm of the gradients is not finite the update is skipped: parameters, moments, their counts
    (on which the learning rate depends) and the moving average stay what they were to the bit. The step counts on,
    and with it go the place in the data and the random numbers. Frozen parameters (a tree of bools) stay too.
    """
    grads, sums = gradients(state, batch, key, loss_fn=loss_fn, passes=passes, axis_name=axis_name)
    norm = optax.tree.norm(grads)
    is_finite = jnp.isfinite(norm) & jnp.isfinite(sums['loss'])
    updates, opt_state = tx.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    step = state.step + 1
    ema = None if state.ema is None else _moving_average(state.ema, params, step, ema_decay)
    if is_frozen is not None:
        params = keep(state.params, params, is_frozen)
        ema = None if ema is None else keep(state.ema, ema, is_frozen)
    new = TrainState(step, params, opt_state, ema)
    # A choice element by element, not lax.cond: it is part of the update's own loops, and costs no pass over memory.
    state = jax.tree.map(lambda new, old: jnp.where(is_finite, new, old), new, state)._replace(step=step)
    return state, sums | {'grad_norm': norm, 'skipped': ~is_finite}


def gradients(
    state: TrainState,
    batch: Batch,
    key: jax.Array,
    *,
    loss_fn: LossFn,
    passes: Passes | None = None,
    axis_name: str | None = None,
) -> tuple[Any, Metrics]:
    """The gradients of the mean loss, as the state's params, and the sums over the batch.

    Losses and gradients are sums over tokens, divided once by the count over all devices: the mean of the devices'
    means would weigh tokens by the company they happen to be in. So a batch may be computed in `passes`, too.
    """
    key = jax.random.fold_in(key, state.step)
    if axis_name:
        key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
    compute = lambda batch, key: jax.grad(loss_fn, has_aux=True)(state.params, batch, key)
    grads, sums = compute(batch, key) if passes is None else passes.add_up(compute, batch, key)
    if axis_name:
        grads, sums = jax.lax.psum((grads, sums), axis_name)
    return jax.tree.map(lambda g: g / jnp.maximum(sums['target_tokens'], 1.0), grads), sums


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

    def __init__(self, config: Config, devices: Sequence[jax.Device] | None = None) -> None:
        """On `devices`, which need not be here, to compile for; None: on those of the config."""
        self.config = config
        self.devices = Devices(config.parallel, devices)
        self.devices.check_rows(config.rows_per_step)
        self.model = Transformer(config.model, remat=config.parallel.remat == 'layers')
        shape = {'d_model': config.model.d_model, 'steps': config.training.steps}
        self.is_frozen = self._frozen()
        self.tx = make_optimizer(config.optimizer, is_frozen=self.is_frozen, **shape)
        self.learning_rate = make_schedule(config.optimizer, **shape)
        # Shapes alone: a state may be too large for the device that it would be made on.
        shapes = jax.eval_shape(partial(init_state, config, self.tx))
        self.shardings = state = self.devices.shardings(shapes)
        self.shapes = jax.tree.map(
            lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), shapes, self.shardings
        )
        names = tuple(corpus.name for corpus in config.data.corpora)
        smoothing = config.training.label_smoothing
        chunk = self.devices.parts_of_a_step * (config.parallel.loss_chunk or automatic_chunk(config.model))
        loss_fn = partial(loss_sums, model=self.model, label_smoothing=smoothing, corpora=names, loss_chunk=chunk)
        trained_loss = r_drop = partial(loss_fn, r_drop_alpha=config.training.r_drop_alpha)
        if self.is_frozen is not None:
            trained_loss = lambda params, *rest: r_drop(stop_gradients(params, self.is_frozen), *rest)
        self.passes = make_passes(config, self.devices, state.params)  # of a step; None: one
        of_step = {'loss_fn': trained_loss, 'passes': self.passes}
        decay, whole, compiled = config.optimizer.ema_decay, self.devices.replicated, self.devices.compile
        step = partial(train_step, **of_step, tx=self.tx, ema_decay=decay, is_frozen=self.is_frozen)
        self.compiled_step = compiled(step, takes=state, gives=(state, whole), donate_state=True)
        self._eval_step = compiled(partial(eval_step, loss_fn=loss_fn), takes=state.params)
        self._gradients = compiled(partial(gradients, **of_step), takes=state, gives=(state.params, whole))
        key = lambda: jax.random.key(config.seed + 1)  # not that of the initial parameters
        self._key = key() if processes.count() == 1 else jax.jit(key, out_shardings=whole)()

    def _frozen(self) -> Any:
        """Which parameters are frozen, as a tree of bools; None: none is."""
        patterns = self.config.optimizer.freeze
        if not patterns:
            return None
        inputs = [jax.ShapeDtypeStruct((1, 1), jnp.int32)] * 2
        return frozen_by(patterns, jax.eval_shape(self.model.init, jax.random.key(0), *inputs)['params'])

    def init_state(self, params: Any = None) -> TrainState:
        """The state before the first step, on its devices; `params` are those to start from, if any, given away."""
        init = partial(init_state, self.config, self.tx)
        if params is None and (self.devices.strategy == 'mesh' or processes.count() > 1):
            return jax.jit(init, out_shardings=self.shardings)()  # no device ever holds all of it
        return self.devices.place(init(params=params), self.shardings)

    def step(self, state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
        """One update over all devices; `state` is given away. The metrics are not waited for.

        Of several processes each has its own rows of the batch (`own_rows` of the devices).
        """
        return self.compiled_step(state, self.devices.split(batch, self.config.rows_per_step), self._key)

    def gradients(self, state: TrainState, batch: Batch) -> tuple[Any, Metrics]:
        """The gradients that `step` would make of the same state and batch, and its sums."""
        return self._gradients(state, self.devices.split(batch, self.config.rows_per_step), self._key)

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
    """Loss and negative log-likelihood per target token, and perplexity, from their sums; of each corpus the second.

    With R-Drop the divergence of its two passes, too.
    """
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
        **({'kl': sums['kl'] / count} if 'kl' in sums else {}),
        **of_corpora,
    }
