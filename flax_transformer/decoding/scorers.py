"""Scores of hypotheses; scorers can be summed."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from flax_transformer.common.trees import DecodeState, Step


class Scorer(NamedTuple):
    """Three functions; a hypothesis's score is `score` plus `state_score`.

    `bound`, for each of G groups of beams, must be at least any score that a hypothesis of this log-probability can
    still reach with at most so many tokens, since a search stops by it. For the same reason `state_score` must be at
    most 0.
    """

    score: Callable[[jax.Array, jax.Array], jax.Array]  # (log-probabilities, lengths) of one shape
    bound: Callable[[jax.Array, jax.Array], jax.Array]  # (log-probabilities [B, G], lengths [B, 1]) -> [B, G]
    state_score: Callable[[DecodeState], jax.Array] | None = None  # the state after the last token -> [N]


def add(*scorers: Scorer) -> Scorer:
    """The sum of scorers."""
    of_states = [scorer.state_score for scorer in scorers if scorer.state_score is not None]

    def score(log_probs: jax.Array, lengths: jax.Array) -> jax.Array:
        return sum(scorer.score(log_probs, lengths) for scorer in scorers)

    def bound(log_probs: jax.Array, lengths: jax.Array) -> jax.Array:
        return sum(scorer.bound(log_probs, lengths) for scorer in scorers)

    def state_score(state: DecodeState) -> jax.Array:
        return sum(score_of(state) for score_of in of_states)

    return Scorer(score, bound, state_score if of_states else None)


def length_penalty(length: jax.Array, kind: str, alpha: float) -> jax.Array:
    """The divisor of a log-probability.

    `gnmt`: ((5 + length) / 6)^alpha (Wu et al. 2016, eq. 14; Vaswani et al. 2017 use alpha 0.6).
    `power`: length^alpha, as in fairseq, Hugging Face and CTranslate2. `none`: 1.
    """
    length = jnp.asarray(length, jnp.float32)
    if kind == 'none':
        return jnp.ones_like(length)
    return {'gnmt': (5.0 + length) / 6.0, 'power': length}[kind] ** alpha


def length_normalized(kind: str = 'gnmt', alpha: float = 0.6) -> Scorer:
    """Log-probability / `length_penalty`, bounded by that at the greatest length: log-probabilities only fall."""

    def score(log_probs: jax.Array, lengths: jax.Array) -> jax.Array:
        return log_probs / length_penalty(lengths, kind, alpha)

    return Scorer(score, score)


def word_reward(reward: float) -> Scorer:
    """`reward` nats, at least 0, for each token, EOS included (He et al. 2016)."""

    def score(log_probs: jax.Array, lengths: jax.Array) -> jax.Array:
        return jnp.broadcast_to(reward * jnp.asarray(lengths, jnp.float32), log_probs.shape)

    return Scorer(score, score)


class Covered(NamedTuple):
    """A step's cache, and the attention that each source slot has received so far."""

    cache: Any
    coverage: jax.Array  # [N, S]


def with_coverage(
    step: Callable[[jax.Array, DecodeState], tuple[jax.Array, jax.Array, DecodeState]],
    state: DecodeState,
    batch: int,
    source_slots: int,
) -> tuple[Step, DecodeState]:
    """A step and its first state that sum attention, from a step that returns (logits, weights [N, S], state)."""

    def covering(tokens: jax.Array, state: DecodeState) -> tuple[jax.Array, DecodeState]:
        logits, weights, after = step(tokens, state._replace(cache=state.cache.cache))
        return logits, after._replace(cache=Covered(after.cache, state.cache.coverage + weights))

    return covering, state._replace(cache=Covered(state.cache, jnp.zeros((batch, source_slots), jnp.float32)))


def coverages_of(state: DecodeState) -> jax.Array:
    """The coverage [members, N, S] in the state of a step made by `with_coverage`, or of an ensemble of such steps."""
    members = (state.cache,) if isinstance(state.cache, Covered) else state.cache
    return jnp.stack([member.coverage for member in members])


def coverage_penalty(beta: float, is_source: jax.Array) -> Scorer:
    """beta * sum over the source of log(min(coverage, 1)) (Wu et al. 2016, eq. 14); at most 0.

    Needs steps made by `with_coverage`; an ensemble's penalties are averaged. `is_source` [B, S] tells tokens from
    padding. A slot's coverage counts as at least e^-10.
    """

    def zero(log_probs: jax.Array, lengths: jax.Array) -> jax.Array:
        return jnp.zeros_like(log_probs)

    def state_score(state: DecodeState) -> jax.Array:
        coverages = coverages_of(state)
        real = jnp.repeat(is_source, coverages.shape[1] // is_source.shape[0], axis=0)[None]
        logs = jnp.log(jnp.clip(coverages, jnp.exp(-10.0), 1.0))
        return beta * jnp.where(real, logs, 0.0).sum(axis=-1).mean(axis=0)

    return Scorer(zero, zero, state_score)
