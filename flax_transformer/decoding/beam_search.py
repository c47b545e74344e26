"""Beam search (Wu et al. 2016, section 7), whole or in groups that avoid each other (Vijayakumar et al. 2018)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from flax_transformer.common.decode_state import DecodeState, Step
from flax_transformer.decoding.blockwise import blockwise_top_k
from flax_transformer.decoding.greedy_and_sampling import greedy_search
from flax_transformer.decoding.scorers import Scorer, length_normalized
from flax_transformer.decoding.state import NEG_INF, Hypotheses, Transform, repeat, stages, transformed, with_room


class _Live(NamedTuple):
    """The W hypotheses of each sentence that go on, best first."""

    tokens: jax.Array  # [B, W, L]
    gains: jax.Array  # [B, W, L] log-probability of each token
    log_probs: jax.Array  # [B, W]
    state_score: jax.Array  # [B, W] the scorer's part that comes from the state


class _Done(NamedTuple):
    """The best W finished ones, best first; a score of NEG_INF where there is none yet."""

    scores: jax.Array  # [B, W]
    tokens: jax.Array  # [B, W, L]
    gains: jax.Array  # [B, W, L]
    log_probs: jax.Array  # [B, W]
    lengths: jax.Array  # [B, W]


class _Beams(NamedTuple):
    """The loop's carry."""

    position: jax.Array  # tokens of every live hypothesis
    live: _Live
    done: _Done
    is_closed: jax.Array  # [B] the sentence's search is over
    state: DecodeState


def _pick(tree: Any, index: jax.Array) -> Any:
    """Entries `index` [B, K] of the second axis of every array [B, W, ...]."""
    return jax.tree.map(lambda x: jax.vmap(lambda row, i: row[i])(x, index), tree)


def _reordered(state: DecodeState, parents: jax.Array) -> DecodeState:
    """The state of hypotheses that go on from parents [B, W]: caches follow, ancestry says which slots are theirs."""
    batch, width = parents.shape
    flat = (jnp.arange(batch)[:, None] * width + parents).reshape(-1)
    state = state._replace(cache=jax.tree.map(lambda x: x[flat], state.cache))
    if state.ancestry is None:
        return state
    ancestry = state.ancestry.at[:, :, state.position - 1].set(jnp.arange(width))
    return state._replace(ancestry=_pick(ancestry, parents))


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
    transforms: Sequence[Transform] = (),
    scorer: Scorer | None = None,
    groups: int = 1,
    diversity: float = 0.0,
    early_stop: bool = True,
) -> Hypotheses:
    """The W best hypotheses by `scorer`, distinct. Width 1 is greedy search.

    Each step keeps the 2W best continuations, so that W live ones remain even if W of them end. A sentence is over at
    its own max_length, or once no live hypothesis can still overtake the worst of W finished ones. Hypotheses cut at
    max_length rank behind every finished one. Ties go to the lower beam, then the lower id.

    With `groups` there are as many beam searches of width / groups each, side by side: at each step a group ranks a
    token `diversity` nats lower for each time that the groups before it have just taken it. The penalty chooses; it is
    not part of log-probabilities and scores. What two groups find alike is given once.

    Args:
      state: as for width 1; its cache is copied to the W beams here.
      start: [B] the token before the first.
      max_lengths: [B] tokens at the most, EOS counted, each from 1 to `length`.
      length: L, slots of the output.
      transforms: change the log-probabilities of the next token, one after the other.
      scorer: default `length_normalized()`.
      early_stop: False searches to max_lengths, which must not change the result; for tests.
    """
    scorer = scorer or length_normalized()
    if width == 1:
        common = {'eos_id': eos_id, 'pad_id': pad_id, 'transforms': transforms, 'scorer': scorer}
        return greedy_search(step, state, start=start, max_lengths=max_lengths, length=length, **common)
    if width % groups:
        raise ValueError(f'width {width} does not divide into {groups} groups')
    batch, size = start.shape[0], width // groups

    def advance(beams: _Beams) -> _Beams:
        position, live = beams.position, beams.live
        before = jax.lax.dynamic_index_in_dim(live.tokens, jnp.maximum(position - 1, 0), 2, keepdims=False)
        last = jnp.where(position == 0, start[:, None], before)
        logits, state = step(last.reshape(-1).astype(jnp.int32), beams.state)
        _, log_probs = transformed(logits, transforms, live.tokens.reshape(-1, length), position)
        log_probs = log_probs.reshape(batch, width, -1)
        if scorer.state_score is not None:
            live = live._replace(state_score=scorer.state_score(state).reshape(batch, width))

        new, taken = [], jnp.zeros((batch, log_probs.shape[-1]))
        for first in range(0, width, size):
            part = slice(first, first + size)
            group = jax.tree.map(lambda x, part=part: x[:, part], (live, beams.done))
            after = _extend(*group, log_probs[:, part], diversity * taken, position, eos_id=eos_id, scorer=scorer)
            new.append((*after[:2], after[2] + first))
            if len(new) < groups:
                chosen = jax.lax.dynamic_index_in_dim(after[0].tokens, position, 2, keepdims=False)
                is_real = after[0].log_probs > NEG_INF / 2
                taken = taken.at[jnp.arange(batch)[:, None], chosen].add(is_real)
        live, done, parents = jax.tree.map(lambda *x: jnp.concatenate(x, axis=1), *new)

        is_closed = beams.is_closed | (position + 1 >= max_lengths)
        if early_stop:
            best, worst = live.log_probs[:, ::size], done.scores[:, size - 1 :: size]
            is_closed |= jnp.all(worst >= scorer.bound(best, max_lengths[:, None]), axis=1)

        def unless_closed(new: jax.Array, old: jax.Array) -> jax.Array:
            return jnp.where(beams.is_closed.reshape(-1, *[1] * (new.ndim - 1)), old, new)

        live, done = jax.tree.map(unless_closed, (live, done), (beams.live, beams.done))
        return _Beams(position + 1, live, done, is_closed, _reordered(state, parents))

    def is_running(beams: _Beams) -> jax.Array:
        return ~jnp.all(beams.is_closed)

    tokens, gains = jnp.full((batch, width, length), pad_id, jnp.int32), jnp.zeros((batch, width, length))
    dead = jnp.full((batch, width), NEG_INF)
    # At the start a group's beams are equal: all but the first are out of the race, or it would be W times the same.
    live_log_probs = jnp.tile(jnp.array(([0.0] + [NEG_INF] * (size - 1)) * groups), (batch, 1))
    has_slots = bool(jax.tree.leaves(state.slots))
    ancestry = jnp.zeros((batch, width, length), jnp.int32) if has_slots else None
    beams = _Beams(
        position=jnp.int32(0),
        live=_Live(tokens, gains, live_log_probs, jnp.zeros((batch, width))),
        done=_Done(dead, tokens, gains, dead, jnp.zeros((batch, width), jnp.int32)),
        is_closed=jnp.zeros(batch, bool),
        state=state._replace(cache=repeat(state.cache, width), ancestry=ancestry),
    )
    for end in stages(state, length):
        beams = beams._replace(state=with_room(beams.state, end, width))
        beams = jax.lax.while_loop(lambda beams, end=end: is_running(beams) & (beams.position < end), advance, beams)
    return _ranked(beams.live, beams.done, max_lengths, scorer, pad_id, groups)


def _extend(
    live: _Live,
    done: _Done,
    log_probs: jax.Array,
    penalty: jax.Array,
    position: jax.Array,
    *,
    eos_id: int,
    scorer: Scorer,
) -> tuple[_Live, _Done, jax.Array]:
    """The hypotheses of a group one token later, and the parents [B, W] of the live ones.

    Args:
      log_probs: [B, W, V] of the next token.
      penalty: [B, V] what choosing a token costs on top, in ranking only.
    """
    batch, width, vocab_size = log_probs.shape
    totals = (live.log_probs[:, :, None] + log_probs).reshape(batch, -1)
    ranking = totals - jnp.tile(penalty, (1, width))
    rank, index = blockwise_top_k(ranking, min(2 * width, width * vocab_size))  # [B, 2W]
    best = jnp.take_along_axis(totals, index, axis=1)
    parents, chosen = index // vocab_size, (index % vocab_size).astype(jnp.int32)
    gain = jnp.take_along_axis(log_probs.reshape(batch, -1), index, axis=1)
    tokens, gains, state_score = _pick((live.tokens, live.gains, live.state_score), parents)
    tokens, gains = tokens.at[:, :, position].set(chosen), gains.at[:, :, position].set(gain)
    ends = chosen == eos_id

    lengths = jnp.full_like(chosen, position + 1)
    scores = jnp.where(ends & (best > NEG_INF / 2), scorer.score(best, lengths) + state_score, NEG_INF)
    merged = jax.tree.map(
        lambda old, new: jnp.concatenate([old, new], axis=1), done, _Done(scores, tokens, gains, best, lengths)
    )
    _, kept = jax.lax.top_k(merged.scores, width)
    _, alive = jax.lax.top_k(jnp.where(ends, NEG_INF, rank), width)
    going_on = _Live(tokens, gains, jnp.where(ends, NEG_INF, best), state_score)
    new_live, live_parents = _pick((going_on, parents), alive)
    return new_live, _pick(merged, kept), live_parents


def _ranked(live: _Live, done: _Done, max_lengths: jax.Array, scorer: Scorer, pad_id: int, groups: int) -> Hypotheses:
    """Of each group the finished hypotheses, then those cut at max_length; then all by the same order, none twice."""
    size = done.scores.shape[1] // groups
    parts = [jax.tree.map(lambda x, g=g: x[:, g * size : (g + 1) * size], (live, done)) for g in range(groups)]
    # A group that stopped early is full: none of its live hypotheses, which are not cut but unfinished, gets in.
    best = jax.tree.map(lambda *x: jnp.concatenate(x, axis=1), *[_best(*part, max_lengths, scorer) for part in parts])
    if groups > 1:
        best = _sorted(best, best.log_probs > NEG_INF / 2)
        same = jnp.all(best.tokens[:, :, None] == best.tokens[:, None], axis=-1)
        same &= best.lengths[:, :, None] == best.lengths[:, None]
        came_before = jnp.any(jnp.tril(same, -1), axis=-1)
        best = _sorted(best, (best.log_probs > NEG_INF / 2) & ~came_before)
    # The space may hold fewer than W hypotheses; what the other beams carry was never in the race.
    is_real = best.log_probs > NEG_INF / 2
    return best._replace(
        tokens=jnp.where(is_real[:, :, None], best.tokens, pad_id),
        scores=jnp.where(is_real, best.scores, NEG_INF),
        lengths=jnp.where(is_real, best.lengths, 0),
        token_log_probs=jnp.where(is_real[:, :, None], best.token_log_probs, 0.0),
    )


def _best(live: _Live, done: _Done, max_lengths: jax.Array, scorer: Scorer) -> Hypotheses:
    """The W best of a group."""
    width = done.scores.shape[1]
    is_finished = done.scores > NEG_INF / 2
    cut_lengths = jnp.broadcast_to(max_lengths[:, None], done.lengths.shape).astype(jnp.int32)
    cut_scores = scorer.score(live.log_probs, cut_lengths) + live.state_score
    both = lambda *arrays: jnp.concatenate(arrays, axis=1)
    merged = Hypotheses(
        tokens=both(done.tokens, live.tokens),
        scores=both(done.scores, cut_scores),
        log_probs=both(done.log_probs, live.log_probs),
        lengths=both(done.lengths, cut_lengths),
        is_finished=both(is_finished, jnp.zeros_like(is_finished)),
        token_log_probs=both(done.gains, live.gains),
    )
    # What is not finished among the done ones is nothing.
    is_real = (merged.log_probs > NEG_INF / 2) & both(is_finished, jnp.ones_like(is_finished))
    return jax.tree.map(lambda x: x[:, :width], _sorted(merged, is_real))


def _sorted(found: Hypotheses, is_real: jax.Array) -> Hypotheses:
    """Finished, cut, and those that do not count, whose log-probability becomes NEG_INF; stable."""
    group = jnp.where(is_real, jnp.where(found.is_finished, 0, 1), 2)
    order = jnp.lexsort((-found.scores, group), axis=1)
    found = found._replace(log_probs=jnp.where(is_real, found.log_probs, NEG_INF))
    found = found._replace(is_finished=found.is_finished & is_real)
    return _pick(found, order)
