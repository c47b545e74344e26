"""Transforms of log-probabilities [N, V], given a `History`: which tokens may come next, and how probable they are.

Order: those that ban, those that shape a distribution for sampling (`temperature` to `min_p`), then those that force
(`forced_prefix`, `force_eos`), so that nothing forbids what they force.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from .problem import NEG_INF, History, Transform


def ban(ids: Sequence[int]) -> Transform:
    """Never chooses the ids."""
    ids = np.array(ids, np.int32)

    def transform(log_probs: jax.Array, history: History) -> jax.Array:
        # A select, not a scatter: XLA fuses it into its consumer.
        is_banned = np.isin(np.arange(log_probs.shape[1]), ids)
        return jnp.where(is_banned[None], NEG_INF, log_probs)

    return transform


def ban_sequences(sequences: Sequence[Sequence[int]]) -> Transform:
    """No hypothesis contains any of the sequences: the last id of each is banned after its others."""

    def transform(log_probs: jax.Array, history: History) -> jax.Array:
        for *before, last in sequences:
            if len(before) < history.tokens.shape[1]:  # a hypothesis can be as long
                recent = _recent(history, len(before))
                completes = jnp.all(recent == jnp.array(before, jnp.int32)[None], axis=1)
                completes &= history.position >= len(before)
                log_probs = log_probs.at[:, last].set(jnp.where(completes, NEG_INF, log_probs[:, last]))
        return log_probs

    return transform


def renormalize() -> Transform:
    """Makes probabilities sum to 1 again, after those that ban."""
    return lambda log_probs, history: jax.nn.log_softmax(log_probs, axis=-1)


def min_length(tokens: int, eos_id: int) -> Transform:
    """No EOS before it would be token number `tokens`."""

    def transform(log_probs: jax.Array, history: History) -> jax.Array:
        too_early = history.position + 1 < tokens
        is_eos = np.arange(log_probs.shape[1]) == eos_id
        return jnp.where(too_early & is_eos[None], NEG_INF, log_probs)

    return transform


def no_repeat_ngrams(n: int) -> Transform:
    """No n-gram of tokens occurs twice in a hypothesis."""

    def transform(log_probs: jax.Array, history: History) -> jax.Array:
        tokens = history.tokens
        position = history.position
        rows, slots = tokens.shape
        starts = slots - n + 1
        if starts < 1:
            return log_probs
        windows = jnp.stack([tokens[:, i : i + starts] for i in range(n)], axis=-1)  # [N, starts, n]
        same = jnp.all(windows[:, :, : n - 1] == _recent(history, n - 1)[:, None], axis=-1)
        same &= (jnp.arange(starts) + n - 1 < position)[None]
        limit = jnp.where(same, NEG_INF, jnp.inf)
        return log_probs.at[jnp.arange(rows)[:, None], windows[:, :, n - 1]].min(limit)

    return transform


def force_eos(max_lengths: jax.Array, eos_id: int) -> Transform:
    """Forces EOS at position max_lengths [B], at no cost, as in Hugging Face."""

    def transform(log_probs: jax.Array, history: History) -> jax.Array:
        is_last = _per_hypothesis(max_lengths, log_probs) == history.position + 1
        only_eos = jnp.full_like(log_probs, NEG_INF).at[:, eos_id].set(0.0)
        return jnp.where(is_last[:, None], only_eos, log_probs)

    return transform


def forced_prefix(prefix: jax.Array, pad_id: int, free: int = 0) -> Transform:
    """Begins with the ids of prefix [B, P] before pad_id; the first `free` cost nothing, the others what they cost."""

    def transform(log_probs: jax.Array, history: History) -> jax.Array:
        slots = prefix.shape[1]
        forced = jax.lax.dynamic_index_in_dim(prefix, jnp.minimum(history.position, slots - 1), 1, keepdims=False)
        is_forced = (forced != pad_id) & (history.position < slots)
        forced, is_forced = (_per_hypothesis(x, log_probs)[:, None] for x in (forced, is_forced))
        is_it = jnp.arange(log_probs.shape[1])[None] == forced
        cost = jnp.where(history.position < free, 0.0, history.log_probs)
        return jnp.where(is_forced, jnp.where(is_it, cost, NEG_INF), log_probs)

    return transform


def temperature(value: float) -> Transform:
    """Probabilities to the power of 1 / value, normalized."""
    return lambda log_probs, history: jax.nn.log_softmax(log_probs / value, axis=-1)


def top_k(k: int) -> Transform:
    """Only the k most probable ids (Fan et al. 2018)."""

    def transform(log_probs: jax.Array, history: History) -> jax.Array:
        most = min(k, log_probs.shape[1])  # k may be more than an int32
        return jnp.where(_ranks(log_probs) < most, log_probs, NEG_INF)

    return transform


def top_p(p: float) -> Transform:
    """Only the fewest most probable ids whose probabilities sum to at least p (Holtzman et al. 2020)."""

    def transform(log_probs: jax.Array, history: History) -> jax.Array:
        probs = jax.nn.softmax(log_probs, axis=-1)
        ranks = _ranks(log_probs)
        ordered = jnp.sort(probs, axis=-1, descending=True)
        before = jnp.cumsum(ordered, axis=-1) - ordered
        return jnp.where(jnp.take_along_axis(before, ranks, axis=-1) < p, log_probs, NEG_INF)

    return transform


def min_p(p: float) -> Transform:
    """Only ids at least p times as probable as the most probable one (Nguyen et al. 2024)."""

    def transform(log_probs: jax.Array, history: History) -> jax.Array:
        least = log_probs.max(axis=-1, keepdims=True) + jnp.log(p)
        return jnp.where(log_probs >= least, log_probs, NEG_INF)

    return transform


def _ranks(log_probs: jax.Array) -> jax.Array:
    """The rank [N, V] of each id, 0 for the most probable."""
    order = jnp.argsort(-log_probs, axis=-1, stable=True)
    return jnp.argsort(order, axis=-1)


def _recent(history: History, count: int) -> jax.Array:
    """The last `count` tokens [N, count]; arbitrary ones where there are fewer."""
    begin = jnp.maximum(history.position - count, 0)
    return jax.lax.dynamic_slice_in_dim(history.tokens, begin, min(count, history.tokens.shape[1]), axis=1)


def _per_hypothesis(x: jax.Array, log_probs: jax.Array) -> jax.Array:
    """x [B, ...] as [N, ...]."""
    return jnp.repeat(x, log_probs.shape[0] // x.shape[0], axis=0)
