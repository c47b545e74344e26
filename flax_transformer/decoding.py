"""Search over a step function: greedy and beam, each one jitted `while_loop`. Knows no model.

A step function takes the last token of N = B * W hypotheses and a `DecodeState`, and returns
float32 logits [N, V] for the next one, and the state after it:

    logits, state = step(tokens, state)

Shapes: B sentences, W beams, N = B * W, V vocabulary, L output slots. Lengths are tokens and count EOS.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

NEG_INF = -1e9  # finite: differences of two of them stay numbers


class DecodeState(NamedTuple):
    """What a step function carries from token to token."""

    cache: Any  # a tree of [N, ...]: belongs to one hypothesis, follows it when beams are reordered
    shared: Any  # a tree of [B, ...]: all hypotheses of a sentence read it; computed once, never copied
    position: jax.Array  # tokens decoded so far, a scalar


Step = Callable[[jax.Array, DecodeState], tuple[jax.Array, DecodeState]]


class Hypotheses(NamedTuple):
    """The best W translations of each sentence, best first; where there are fewer, length 0 and scores of NEG_INF."""

    tokens: jax.Array  # [B, W, L] EOS included where there is one, pad_id behind it
    scores: jax.Array  # [B, W] log-probability divided by the length penalty
    log_probs: jax.Array  # [B, W] sum of the tokens' log-probabilities, nats
    lengths: jax.Array  # [B, W] tokens, EOS counted
    is_finished: jax.Array  # [B, W] False: cut at max_lengths before it said EOS


def length_penalty(length: jax.Array, kind: str, alpha: float) -> jax.Array:
    """The divisor of a log-probability.

    `gnmt`: ((5 + length) / 6)^alpha (Wu et al. 2016, eq. 14; Vaswani et al. 2017 use alpha 0.6).
    `power`: length^alpha, as in fairseq, Hugging Face and CTranslate2. `none`: 1.
    """
    length = jnp.asarray(length, jnp.float32)
    if kind == 'gnmt':
        return ((5.0 + length) / 6.0) ** alpha
    if kind == 'power':
        return length**alpha
    if kind == 'none':
        return jnp.ones_like(length)
    raise ValueError(f'length_penalty={kind!r}: expected gnmt, power or none')


def _log_softmax(logits: jax.Array, banned: tuple[int, ...]) -> jax.Array:
    """Log-probabilities [N, V] with banned ids at NEG_INF; the others are not renormalised."""
    log_probs = jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1)
    return log_probs.at[:, jnp.array(banned, jnp.int32)].set(NEG_INF) if banned else log_probs


def greedy_search(
    step: Step,
    state: DecodeState,
    *,
    start: jax.Array,
    max_lengths: jax.Array,
    length: int,
    eos_id: int,
    pad_id: int,
    penalty: str = 'gnmt',
    alpha: float = 0.6,
    banned: tuple[int, ...] = (),
) -> Hypotheses:
    """The most probable next token, again and again, until EOS or the sentence's own max_length.

    Args:
      start: [B] the token before the first.
      max_lengths: [B] tokens at the most, EOS counted, each from 1 to `length`.
      length: L, slots of the output.
      penalty, alpha: only scale the reported scores; they cannot change a greedy choice.
      banned: ids that are never chosen.
    """
    batch = start.shape[0]

    def is_running(carry) -> jax.Array:
        position, _, (_, _, lengths, _), _ = carry
        return (position < length) & jnp.any(lengths == 0)

    def advance(carry):
        position, last, (tokens, log_probs, lengths, is_finished), state = carry
        is_done = lengths > 0
        logits, state = step(last, state)
        next_log_probs = _log_softmax(logits, banned)
        chosen = jnp.argmax(next_log_probs, axis=-1).astype(jnp.int32)
        gain = jnp.take_along_axis(next_log_probs, chosen[:, None], axis=-1)[:, 0]
        chosen = jnp.where(is_done, pad_id, chosen)
        log_probs = jnp.where(is_done, log_probs, log_probs + gain)
        tokens = tokens.at[:, position].set(chosen)
        ends = ~is_done & (chosen == eos_id)
        lengths = jnp.where(ends | (~is_done & (position + 1 >= max_lengths)), position + 1, lengths)
        return position + 1, chosen, (tokens, log_probs, lengths, is_finished | ends), state

    tokens = jnp.full((batch, length), pad_id, jnp.int32)
    # A length of 0 stands for a sentence that still goes on.
    blank = (tokens, jnp.zeros(batch), jnp.zeros(batch, jnp.int32), jnp.zeros(batch, bool))
    carry = (jnp.int32(0), start.astype(jnp.int32), blank, state)
    _, _, (tokens, log_probs, lengths, is_finished), _ = jax.lax.while_loop(is_running, advance, carry)
    scores = log_probs / length_penalty(lengths, penalty, alpha)
    return Hypotheses(*(x[:, None] for x in (tokens, scores, log_probs, lengths, is_finished)))


class _Beams(NamedTuple):
    """The loop's carry: W live hypotheses of each sentence, and the best W finished ones."""

    position: jax.Array  # tokens of every live hypothesis
    live_tokens: jax.Array  # [B, W, L]
    live_log_probs: jax.Array  # [B, W]
    done_tokens: jax.Array  # [B, W, L]
    done_scores: jax.Array  # [B, W], NEG_INF where there is none yet
    done_log_probs: jax.Array  # [B, W]
    done_lengths: jax.Array  # [B, W]
    is_closed: jax.Array  # [B] the sentence's search is over
    state: DecodeState


def _pick(tree: Any, index: jax.Array) -> Any:
    """Entries `index` [B, K] of the second axis of every array [B, W, ...]."""
    return jax.tree.map(lambda x: jax.vmap(lambda row, i: row[i])(x, index), tree)


def _pick_cache(cache: Any, parents: jax.Array) -> Any:
    """The caches [N, ...] of the hypotheses' parents [B, W]."""
    batch, width = parents.shape
    flat = (jnp.arange(batch)[:, None] * width + parents).reshape(-1)
    return jax.tree.map(lambda x: x[flat], cache)


def beam_search(
    step: Step,
    state: DecodeState,
    *,
    start: jax.Array,
    max_lengths: jax.Array,
    length: int,
    width: int,
    eos_id: int,
    pad_id: int,
    penalty: str = 'gnmt',
    alpha: float = 0.6,
    banned: tuple[int, ...] = (),
    early_stop: bool = True,
) -> Hypotheses:
    """The W best hypotheses by log-probability / length penalty (Wu et al. 2016, section 7).

    Width 1 is greedy search. Each step keeps the 2W best continuations, so that W live ones remain even if W of
    them end. A sentence is over at its own max_length, or once no live hypothesis can still overtake the worst of
    W finished ones: a live log-probability only falls, so its score is bounded by the one it would have with the
    penalty at max_length. Hypotheses cut at max_length rank behind every finished one. Ties go to the lower beam,
    then the lower id.

    Args:
      state: as for width 1; its cache is copied to the W beams here.
      start: [B] the token before the first.
      max_lengths: [B] tokens at the most, EOS counted, each from 1 to `length`.
      length: L, slots of the output.
      banned: ids that are never chosen.
      early_stop: False searches to max_lengths, which must not change the result; for tests.
    """
    if width == 1:
        common = {'eos_id': eos_id, 'pad_id': pad_id, 'penalty': penalty, 'alpha': alpha, 'banned': banned}
        return greedy_search(step, state, start=start, max_lengths=max_lengths, length=length, **common)
    batch = start.shape[0]
    final_penalty = length_penalty(max_lengths, penalty, alpha)  # [B]

    def advance(beams: _Beams) -> _Beams:
        position = beams.position
        before = jax.lax.dynamic_index_in_dim(beams.live_tokens, jnp.maximum(position - 1, 0), 2, keepdims=False)
        last = jnp.where(position == 0, start[:, None], before)
        logits, state = step(last.reshape(-1).astype(jnp.int32), beams.state)
        vocab_size = logits.shape[-1]
        log_probs = _log_softmax(logits, banned).reshape(batch, width, vocab_size)
        log_probs = beams.live_log_probs[:, :, None] + log_probs

        num_candidates = min(2 * width, width * vocab_size)
        best, index = jax.lax.top_k(log_probs.reshape(batch, -1), num_candidates)  # [B, 2W]
        parents, chosen = index // vocab_size, (index % vocab_size).astype(jnp.int32)
        tokens = _pick(beams.live_tokens, parents).at[:, :, position].set(chosen)
        ends = chosen == eos_id

        new_length = position + 1
        scores = best / length_penalty(new_length, penalty, alpha)
        is_real = ends & (best > NEG_INF / 2)
        merged = (
            jnp.concatenate([beams.done_scores, jnp.where(is_real, scores, NEG_INF)], axis=1),
            jnp.concatenate([beams.done_tokens, tokens], axis=1),
            jnp.concatenate([beams.done_log_probs, best], axis=1),
            jnp.concatenate([beams.done_lengths, jnp.full_like(chosen, new_length)], axis=1),
        )
        done_scores, kept = jax.lax.top_k(merged[0], width)
        done_tokens, done_log_probs, done_lengths = _pick(merged[1:], kept)

        live_log_probs, alive = jax.lax.top_k(jnp.where(ends, NEG_INF, best), width)
        live_tokens, live_parents = _pick((tokens, parents), alive)

        is_closed = beams.is_closed | (new_length >= max_lengths)
        if early_stop:
            is_closed |= done_scores[:, -1] >= live_log_probs[:, 0] / final_penalty

        def unless_closed(new: jax.Array, old: jax.Array) -> jax.Array:
            return jnp.where(beams.is_closed.reshape(-1, *[1] * (new.ndim - 1)), old, new)

        return _Beams(
            new_length,
            unless_closed(live_tokens, beams.live_tokens),
            unless_closed(live_log_probs, beams.live_log_probs),
            unless_closed(done_tokens, beams.done_tokens),
            unless_closed(done_scores, beams.done_scores),
            unless_closed(done_log_probs, beams.done_log_probs),
            unless_closed(done_lengths, beams.done_lengths),
            is_closed,
            state._replace(cache=_pick_cache(state.cache, live_parents)),
        )

    def is_running(beams: _Beams) -> jax.Array:
        return (beams.position < length) & ~jnp.all(beams.is_closed)

    blank = jnp.full((batch, width, length), pad_id, jnp.int32)
    # At the start the W beams are equal: all but the first are out of the race, or it would be W times the same.
    live_log_probs = jnp.tile(jnp.array([0.0] + [NEG_INF] * (width - 1)), (batch, 1))
    beams = jax.lax.while_loop(
        is_running,
        advance,
        _Beams(
            position=jnp.int32(0),
            live_tokens=blank,
            live_log_probs=live_log_probs,
            done_tokens=blank,
            done_scores=jnp.full((batch, width), NEG_INF),
            done_log_probs=jnp.full((batch, width), NEG_INF),
            done_lengths=jnp.zeros((batch, width), jnp.int32),
            is_closed=jnp.zeros(batch, bool),
            state=state._replace(cache=jax.tree.map(lambda x: jnp.repeat(x, width, axis=0), state.cache)),
        ),
    )
    return _ranked(beams, max_lengths, final_penalty, pad_id)


def _ranked(beams: _Beams, max_lengths: jax.Array, final_penalty: jax.Array, pad_id: int) -> Hypotheses:
    """Finished hypotheses first, then those cut at max_length, each sorted by score."""
    width = beams.done_scores.shape[1]
    is_finished = beams.done_scores > NEG_INF / 2
    num_finished = is_finished.sum(axis=1, keepdims=True)
    # Both halves are sorted already, so the n finished ones go first and the best cut ones fill the rest.
    rank = jnp.arange(width)[None]
    order = jnp.where(rank < num_finished, rank, width + rank - num_finished)
    cut_lengths = jnp.broadcast_to(max_lengths[:, None], beams.done_lengths.shape).astype(jnp.int32)
    merged = Hypotheses(
        tokens=jnp.concatenate([beams.done_tokens, beams.live_tokens], axis=1),
        scores=jnp.concatenate([beams.done_scores, beams.live_log_probs / final_penalty[:, None]], axis=1),
        log_probs=jnp.concatenate([beams.done_log_probs, beams.live_log_probs], axis=1),
        lengths=jnp.concatenate([beams.done_lengths, cut_lengths], axis=1),
        is_finished=jnp.concatenate([is_finished, jnp.zeros_like(is_finished)], axis=1),
    )
    best = Hypotheses(*_pick(tuple(merged), order))
    # The space may hold fewer than W hypotheses; what the other beams carry was never in the race.
    is_real = best.log_probs > NEG_INF / 2
    return best._replace(
        tokens=jnp.where(is_real[:, :, None], best.tokens, pad_id),
        scores=jnp.where(is_real, best.scores, NEG_INF),
        log_probs=jnp.where(is_real, best.log_probs, NEG_INF),
        lengths=jnp.where(is_real, best.lengths, 0),
    )
