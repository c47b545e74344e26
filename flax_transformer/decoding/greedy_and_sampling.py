"""Searches that never revise a choice: greedy and sampling, one loop with two ways to choose."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from flax_transformer.common.trees import DecodeState, Step

from .problem import (
    Hypotheses,
    SearchProblem,
    blockwise_argmax,
    gather_beams,
    next_log_probs,
    repeat,
    run_search,
)


class _Carry(NamedTuple):
    position: jax.Array  # number of tokens chosen so far
    last: jax.Array  # [N] token chosen last
    hypotheses: Hypotheses  # [N, ...], without the axis W; a length of 0 stands for an unfinished hypothesis
    state_scores: jax.Array  # [N]
    state: DecodeState


def greedy_search(step: Step, state: DecodeState, problem: SearchProblem) -> Hypotheses:
    """The most probable next token, again and again, until EOS or max_lengths; W is 1."""

    def choose(log_probs: jax.Array, transformed: jax.Array, position: jax.Array) -> tuple[jax.Array, jax.Array]:
        return blockwise_argmax(transformed), transformed

    hypotheses = _search(step, state, choose, problem)
    return jax.tree.map(lambda x: x[:, None], hypotheses)


def sample_search(
    step: Step, state: DecodeState, problem: SearchProblem, *, keys: jax.Array, samples: int
) -> Hypotheses:
    """W = `samples` independent draws for each sentence, best first by score; a draw may occur twice.

    Each sentence draws with its own key of keys [B], whatever else is in the batch. Tokens are drawn from the
    transformed distribution; log_probs are the model's own.
    """
    fold_in = jax.vmap(jax.random.fold_in, (None, 0))
    hypothesis_keys = jax.vmap(fold_in, (0, None))(keys, jnp.arange(samples)).reshape(-1)

    def choose(log_probs: jax.Array, transformed: jax.Array, position: jax.Array) -> tuple[jax.Array, jax.Array]:
        def noise(key: jax.Array) -> jax.Array:
            return jax.random.gumbel(jax.random.fold_in(key, position), transformed.shape[1:], transformed.dtype)

        # The argmax under Gumbel noise is a draw (Gumbel 1954; Maddison et al. 2014).
        return blockwise_argmax(transformed + jax.vmap(noise)(hypothesis_keys)), log_probs

    start, max_lengths = repeat((problem.start, problem.max_lengths), samples)
    problem = problem._replace(start=start, max_lengths=max_lengths, of_rows=None)
    state = state._replace(cache=repeat(state.cache, samples))
    draws = _search(step, state, choose, problem, samples)
    draws = jax.tree.map(lambda x: x.reshape(-1, samples, *x.shape[1:]), draws)
    return gather_beams(draws, jnp.lexsort((-draws.scores, ~draws.is_finished), axis=1))


def sentence_keys(seed: int, source: jax.Array, pad_id: int) -> jax.Array:
    """Keys [B], from the ids of source [B, S] alone: the same draws in any batch, with any padding."""
    position = jnp.arange(source.shape[1], dtype=jnp.uint32)
    # Each position weights its token by another odd number, so order matters; sums and products wrap around.
    weights = (position * jnp.uint32(2654435761) + jnp.uint32(40503)) | jnp.uint32(1)
    mixed = (source.astype(jnp.uint32) + 1) * jnp.uint32(2246822519) ^ (source.astype(jnp.uint32) >> 3)
    digests = jnp.where(source != pad_id, mixed * weights[None], 0).sum(axis=1, dtype=jnp.uint32)
    return jax.vmap(lambda digest: jax.random.fold_in(jax.random.key(seed), digest))(digests)


def _search(
    step: Step, state: DecodeState, choose: Callable[..., Any], problem: SearchProblem, width: int = 1
) -> Hypotheses:
    """The hypotheses [N, ...] that `choose` leads to, from a problem and a state of N = B * W rows.

    `choose(log_probs [N, V], transformed, position)` returns tokens [N], and the log-probabilities to sum.
    """
    rows = problem.start.shape[0]
    length = problem.length

    def advance(carry: _Carry, problem: SearchProblem) -> _Carry:
        position = carry.position
        hypotheses = carry.hypotheses
        is_done = hypotheses.lengths > 0

        logits, state = step(carry.last, carry.state)
        chosen, log_probs = choose(*next_log_probs(logits, problem, hypotheses.tokens, position), position)
        chosen = chosen.astype(jnp.int32)
        gain = jnp.take_along_axis(log_probs, chosen[:, None], axis=-1)[:, 0]
        gain = jnp.where(is_done, 0.0, gain)
        # Rows that ended later than here may go along with others on CPUs (run_search).
        chosen = jnp.where(is_done, hypotheses.tokens[:, position], chosen)

        ends = ~is_done & (chosen == problem.eos_id)
        stops = ends | (~is_done & (position + 1 >= problem.max_lengths))
        hypotheses = hypotheses._replace(
            tokens=hypotheses.tokens.at[:, position].set(chosen),
            log_probs=hypotheses.log_probs + gain,
            lengths=jnp.where(stops, position + 1, hypotheses.lengths),
            is_finished=hypotheses.is_finished | ends,
            token_log_probs=hypotheses.token_log_probs.at[:, position].add(gain),
        )
        state_scores = carry.state_scores
        scorer = problem.scorer
        if scorer.state_score is not None:
            state_scores = jnp.where(is_done, state_scores, scorer.state_score(state))
        return _Carry(position + 1, chosen, hypotheses, state_scores, state)

    hypotheses = Hypotheses(
        tokens=jnp.full((rows, length), problem.pad_id, jnp.int32),
        scores=jnp.zeros(rows, jnp.float32),
        log_probs=jnp.zeros(rows, jnp.float32),
        lengths=jnp.zeros(rows, jnp.int32),
        is_finished=jnp.zeros(rows, bool),
        token_log_probs=jnp.zeros((rows, length), jnp.float32),
    )
    carry = _Carry(jnp.int32(0), problem.start.astype(jnp.int32), hypotheses, jnp.zeros(rows, jnp.float32), state)

    def is_open(carry: _Carry) -> jax.Array:
        return carry.hypotheses.lengths == 0

    carry = run_search(advance, is_open, carry, problem, width=width)
    hypotheses = carry.hypotheses
    scores = problem.scorer.score(hypotheses.log_probs, hypotheses.lengths)
    return hypotheses._replace(scores=scores + carry.state_scores)
