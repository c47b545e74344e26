"""Cross-entropy by token, and sums over a batch without ever holding all of its logits."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

Sums = dict[str, jax.Array]
Statistics = tuple[jax.Array, jax.Array, jax.Array]  # of each token's logits: logsumexp, the target's, their sum
SumsOf = Callable[[Any, Any, Any], tuple[jax.Array, Sums]]


def cross_entropy(
    logits: jax.Array, targets: jax.Array, *, label_smoothing: float = 0.0
) -> tuple[jax.Array, jax.Array]:
    """The cross-entropy -sum_v q(v) log p(v) of each token with and without label smoothing; nats, float32.

    q gives 1 - label_smoothing to the target and spreads the rest evenly over the other V - 1 pieces
    (Vaswani et al. 2017, section 5.4, as in tensor2tensor).

    Args:
      logits: [..., V].
      targets: [...] ids.
    """
    logits = logits.astype(jnp.float32)
    normalizer, target_logits, total = jax.lax.platform_dependent(
        logits, targets, cuda=statistics_in_one_read, default=_statistics
    )
    nll = normalizer - target_logits
    if not label_smoothing:
        return nll, nll
    # q sums to 1, so -sum_v q(v) (z_v - logsumexp z) = logsumexp z - sum_v q(v) z_v. No one-hot targets needed.
    others = label_smoothing / (logits.shape[-1] - 1)
    smoothed = normalizer - (1.0 - label_smoothing - others) * target_logits - others * total
    return smoothed, nll


def _statistics(logits: jax.Array, targets: jax.Array) -> Statistics:
    # Select and sum instead of gather: no scatter in the gradient, and the vocabulary may be split over devices.
    target_logits = jnp.where(_is_target(logits, targets), logits, 0.0).sum(axis=-1)
    return jax.nn.logsumexp(logits, axis=-1), target_logits, logits.sum(axis=-1)


@jax.custom_vjp
def statistics_in_one_read(logits: jax.Array, targets: jax.Array) -> Statistics:
    """`_statistics` in one reduction, where XLA for GPUs would read the logits from memory four times."""

    def merge(left: Sequence[jax.Array], right: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
        largest = jnp.maximum(left[0], right[0])
        exps = left[1] * jnp.exp(left[0] - largest) + right[1] * jnp.exp(right[0] - largest)
        return largest, exps, left[2] + right[2], left[3] + right[3]

    columns = logits, jnp.ones_like(logits), jnp.where(_is_target(logits, targets), logits, 0.0), logits
    zero = jnp.zeros((), logits.dtype)
    starts = zero + jnp.finfo(logits.dtype).min, zero, zero, zero  # the minimum, as -inf - -inf is NaN
    largest, exps, *sums = jax.lax.reduce(columns, starts, merge, (logits.ndim - 1,))
    return largest + jnp.log(exps), *sums


def _statistics_forward(logits: jax.Array, targets: jax.Array) -> tuple[Statistics, Any]:
    statistics = statistics_in_one_read(logits, targets)
    return statistics, (logits, targets, statistics[0])


def _statistics_backward(kept: Any, grads: Statistics) -> tuple[jax.Array, None]:
    logits, targets, normalizer = kept
    of_normalizer, of_target, of_sum = (grad[..., None] for grad in grads)
    probabilities = jnp.exp(logits - normalizer[..., None])
    return of_normalizer * probabilities + jnp.where(_is_target(logits, targets), of_target, 0.0) + of_sum, None


statistics_in_one_read.defvjp(_statistics_forward, _statistics_backward)


def _is_target(logits: jax.Array, targets: jax.Array) -> jax.Array:
    return jnp.expand_dims(jnp.arange(logits.shape[-1]), range(targets.ndim)) == targets[..., None]


def symmetric_divergence(logits: jax.Array, others: jax.Array) -> jax.Array:
    """(KL(p || q) + KL(q || p)) / 2 of each token from two [..., V] logits; nats (Liang et al. 2021, eq. 2)."""
    log_p, log_q = (jax.nn.log_softmax(x.astype(jnp.float32), axis=-1) for x in (logits, others))
    return 0.5 * ((jnp.exp(log_p) - jnp.exp(log_q)) * (log_p - log_q)).sum(axis=-1)


def sums_in_chunks(sums_of: SumsOf, params: Any, hidden: Any, data: Any, *, width: int) -> tuple[jax.Array, Sums]:
    """`sums_of(params, hidden, data)`, added up over chunks of `width` positions.

    Each chunk's gradients are computed together with its loss, so that the logits [B, width, V] are neither kept nor
    computed twice. Exact up to the order of the sums.

    Args:
      sums_of: a pure function that returns a loss and other sums over tokens; only the loss is differentiated.
      params: a tree that every chunk reads; differentiated.
      hidden: a tree of [B, T, ...], cut along T since B is split over devices; differentiated.
      data: a tree of [B, T, ...], not differentiated. If `width` does not divide T, zeros are appended, which must
        add nothing.
    """
    length = jax.tree.leaves(hidden)[0].shape[1]
    count = -(-length // width)
    return _summed(sums_of, count, params, hidden, data)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _summed(sums_of: SumsOf, count: int, params: Any, hidden: Any, data: Any) -> tuple[jax.Array, Sums]:
    if count == 1:
        return sums_of(params, hidden, data)

    def add(total: Any, chunk: Any) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, sums_of(params, *chunk)), None

    chunks, zeros = _chunks(sums_of, count, params, hidden, data)
    return jax.lax.scan(add, zeros, chunks)[0]


@jax.named_scope('loss')  # `cost.hlo` looks for it
def _summed_forward(sums_of: SumsOf, count: int, params: Any, hidden: Any, data: Any) -> tuple[Any, Any]:
    compute = jax.value_and_grad(sums_of, argnums=(0, 1), has_aux=True)
    if count == 1:
        return compute(params, hidden, data)

    def add(total: Any, chunk: Any) -> tuple[Any, Any]:
        sums, (grads, hidden_grads) = compute(params, *chunk)
        return jax.tree.map(jnp.add, total, (sums, grads)), hidden_grads

    chunks, zeros = _chunks(sums_of, count, params, hidden, data)
    first = zeros, jax.tree.map(jnp.zeros_like, params)
    (sums, grads), hidden_grads = jax.lax.scan(add, first, chunks)
    return sums, (grads, jax.tree.map(_join, hidden_grads, hidden))


def _summed_backward(sums_of: SumsOf, count: int, gradients: Any, cotangents: Any) -> tuple[Any, Any, None]:
    factor, _ = cotangents
    return *jax.tree.map(lambda g: (g * factor).astype(g.dtype), gradients), None


_summed.defvjp(_summed_forward, _summed_backward)


def _chunks(sums_of: SumsOf, count: int, params: Any, *data: Any) -> tuple[Any, Any]:
    chunks = jax.tree.map(lambda x: cut(x, count), data)
    shapes = jax.eval_shape(sums_of, params, *jax.tree.map(lambda x: x[0], chunks))
    return chunks, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)


def _join(chunks: jax.Array, like: jax.Array) -> jax.Array:
    return jnp.moveaxis(chunks, 0, 1).reshape(like.shape[0], -1, *like.shape[2:])[:, : like.shape[1]]


def cut(x: jax.Array, count: int) -> jax.Array:
    """[A, B, ...] as [count, A, ceil(B / count), ...], padded with zeros.

    >>> cut(jnp.array([[1, 2, 3], [4, 5, 6]]), 2).tolist()
    [[[1, 2], [4, 5]], [[3, 0], [6, 0]]]
    """
    width = -(-x.shape[1] // count)
    padded = jnp.pad(x, [(0, 0), (0, count * width - x.shape[1]), *[(0, 0)] * (x.ndim - 2)])
    return jnp.moveaxis(padded.reshape(x.shape[0], count, width, *x.shape[2:]), 1, 0)
