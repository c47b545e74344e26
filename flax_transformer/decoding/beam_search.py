"""Beam search (Wu et al. 2016, section 7), optionally in groups that avoid each other (Vijayakumar et al. 2018).

Below, [B, W, ...] covers all beams, or one group's.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from flax_transformer.common.trees import DecodeState, Step

from .greedy_and_sampling import greedy_search
from .problem import (
    NEG_INF,
    NONE,
    Hypotheses,
    Required,
    SearchProblem,
    blockwise_top_k,
    gather_beams,
    next_log_probs,
    repeat,
    run_search,
    top_k_of_beams,
)
from .required import (
    BEGIN,
    Progress,
    advance,
    allocate,
    attended,
    banks,
    begun,
    first_progress,
    has_place,
    is_met,
    one_of,
    steer,
    wanted_tokens,
)
from .scorers import coverages_of

MOST_WANTED = 16  # tokens for each hypothesis that bring it closer to its phrases
FIRST = 1000.0  # added to the ranking of those that go on with a phrase
LOOK_AHEAD = 4  # tokens more with which live hypotheses are compared with finished ones
LACKING = 1000.0  # taken from the score for each phrase that a hypothesis ends without


class _Live(NamedTuple):
    """The W unfinished hypotheses of each sentence, as each group ranked them."""

    tokens: jax.Array  # [B, W, L]
    token_log_probs: jax.Array  # [B, W, L]
    log_probs: jax.Array  # [B, W]
    state_scores: jax.Array  # [B, W] the part of the score that comes from the state
    progress: Progress | None  # towards required phrases; None: none is required
    shares: jax.Array | None  # [B, W, G] of the newest attention, for each phrase's place; 1: it has none


class _Beams(NamedTuple):
    position: jax.Array  # number of tokens of every live hypothesis
    live: _Live
    finished: Hypotheses  # the best W so far, best first; empty slots score NEG_INF
    is_closed: jax.Array  # [B] the sentence's search is over
    state: DecodeState


def beam_search(
    step: Step,
    state: DecodeState,
    problem: SearchProblem,
    *,
    width: int,
    groups: int = 1,
    diversity: float = 0.0,
) -> Hypotheses:
    """The W = `width` best hypotheses by score, all distinct. Width 1 is greedy search.

    Each step keeps the 2W best continuations, so that W stay live even if W of them end. A sentence's search is over at
    its max_length, or once no live hypothesis would overtake the worst of W finished ones even if it ended after
    LOOK_AHEAD more tokens that are certain. Hypotheses cut at max_length rank after all finished ones. Ties go to the
    lower beam, then to the lower id.

    With `groups`, as many beam searches of width / groups run side by side: at each step a group ranks a token
    `diversity` nats lower for each time that the groups before it have just chosen it; scores are without this penalty.
    A hypothesis that several groups find is returned once.

    With `problem.required`, a hypothesis may end only once it has all phrases, and the beams are shared out among
    hypotheses that have more of them and fewer. One that is cut may lack some.

    `state` is that of one hypothesis per sentence.
    """
    if width == 1 and problem.required is None:
        return greedy_search(step, state, problem)

    def next_beams(beams: _Beams, problem: SearchProblem) -> _Beams:
        live, log_probs, state = _decode(step, beams, problem)
        parts = _split((live, beams.finished, log_probs), groups)
        live, finished, parents = _extend(parts, diversity, beams.position, problem)
        is_closed = beams.is_closed | (beams.position + 1 >= problem.max_lengths)
        is_closed |= _cannot_improve(live, finished, beams.position, problem, groups)
        live, finished = _select(beams.is_closed, (beams.live, beams.finished), (live, finished))
        return _Beams(beams.position + 1, live, finished, is_closed, _follow(state, parents))

    def is_open(beams: _Beams) -> jax.Array:
        return ~beams.is_closed

    beams = _first_beams(state, problem, width, groups)
    beams = run_search(next_beams, is_open, beams, problem, width=width)
    # A group that stopped early is full: none of its live hypotheses, which were not cut, is returned.
    return _merge([_best(*part, problem) for part in _split((beams.live, beams.finished), groups)], problem)


def _first_beams(state: DecodeState, problem: SearchProblem, width: int, groups: int) -> _Beams:
    """Empty hypotheses. Equal ones would continue alike, so all but each group's first start at NEG_INF."""
    batch = problem.start.shape[0]
    length = problem.length
    tokens = jnp.full((batch, width, length), problem.pad_id, jnp.int32)
    token_log_probs = jnp.zeros((batch, width, length), jnp.float32)
    none = jnp.full((batch, width), NEG_INF, jnp.float32)
    zeros = jnp.zeros((batch, width), jnp.int32)
    log_probs = none.at[:, :: width // groups].set(0.0)
    state_scores = jnp.zeros((batch, width), jnp.float32)
    progress = None
    shares = None
    if problem.required is not None:
        progress = first_progress(problem.required, width)
        shares = jnp.ones(progress.counts.shape, jnp.float32)
    ancestry = jnp.zeros((batch, width, length), jnp.int32) if jax.tree.leaves(state.slots) else None
    return _Beams(
        position=jnp.int32(0),
        live=_Live(tokens, token_log_probs, log_probs, state_scores, progress, shares),
        finished=Hypotheses(tokens, none, none, zeros, zeros > 0, token_log_probs),
        is_closed=jnp.zeros(batch, bool),
        state=state._replace(cache=repeat(state.cache, width), ancestry=ancestry),
    )


def _decode(step: Step, beams: _Beams, problem: SearchProblem) -> tuple[_Live, jax.Array, DecodeState]:
    """The live hypotheses, transformed log-probabilities [B, W, V] of their next tokens, and the next state."""
    position = beams.position
    live = beams.live
    batch, width, length = live.tokens.shape
    newest = jax.lax.dynamic_index_in_dim(live.tokens, jnp.maximum(position - 1, 0), 2, keepdims=False)
    last = jnp.where(position == 0, problem.start[:, None], newest)
    logits, state = step(last.reshape(-1).astype(jnp.int32), beams.state)
    _, log_probs = next_log_probs(logits, problem, live.tokens.reshape(-1, length), position)
    if problem.scorer.state_score is not None:
        live = live._replace(state_scores=problem.scorer.state_score(state).reshape(batch, width))
    if problem.required is not None and problem.required.places is not None:
        attention = (coverages_of(state) - coverages_of(beams.state)).mean(axis=0)
        live = live._replace(shares=attended(problem.required, attention.reshape(batch, width, -1)))
    return live, log_probs.reshape(batch, width, -1), state


def _extend(
    parts: Sequence[tuple[_Live, Hypotheses, jax.Array]], diversity: float, position: jax.Array, problem: SearchProblem
) -> tuple[_Live, Hypotheses, jax.Array]:
    """Each group's hypotheses one token later, given the log-probabilities [B, W, V], and the live ones' parents."""
    batch, size, vocab_size = parts[0][2].shape
    extended = []
    times_chosen = jnp.zeros((batch, vocab_size), jnp.float32)
    for group, part in enumerate(parts):
        live, finished, parents = _extend_group(*part, diversity * times_chosen, position, problem)
        extended.append((live, finished, parents + group * size))
        if len(extended) < len(parts):
            chosen = jax.lax.dynamic_index_in_dim(live.tokens, position, 2, keepdims=False)
            times_chosen = times_chosen.at[jnp.arange(batch)[:, None], chosen].add(_is_real(live.log_probs))
    return _concatenate(extended)


def _extend_group(
    live: _Live,
    finished: Hypotheses,
    log_probs: jax.Array,
    penalty: jax.Array,
    position: jax.Array,
    problem: SearchProblem,
) -> tuple[_Live, Hypotheses, jax.Array]:
    """`_extend` of one group, which ranks tokens lower by penalty [B, V]."""
    batch, width, vocab_size = log_probs.shape
    required = problem.required
    if required is not None:
        wanted = _wanted(live, problem)
        log_probs = _without_early_end(log_probs, _may_end(live, required), problem.eos_id)
        if required.places is not None:
            log_probs, progress = steer(log_probs, required, live.progress, wanted, live.shares)
            live = live._replace(progress=progress)

    ranking = live.log_probs[:, :, None] + log_probs - penalty[:, None]
    rank, index = top_k_of_beams(ranking, min(2 * width, width * vocab_size))  # [B, 2W]
    if required is not None:
        best = jnp.argmax(ranking, axis=-1)[..., None]
        wanted = most_wanted(wanted, live.progress, ranking, required)
        rank, index = _with_wanted(rank, index, ranking.reshape(batch, -1), jnp.concatenate([wanted, best], axis=-1))

    parents = index // vocab_size
    chosen = (index % vocab_size).astype(jnp.int32)
    gain = log_probs[jnp.arange(batch)[:, None], parents, chosen]
    best = gather_beams(live.log_probs, parents) + gain
    if required is not None:
        best = jnp.where(_is_real(rank), best, NEG_INF)  # drops duplicate continuations
    tokens, gains, state_scores = gather_beams((live.tokens, live.token_log_probs, live.state_scores), parents)
    tokens = tokens.at[:, :, position].set(chosen)
    gains = gains.at[:, :, position].set(gain)

    ends = chosen == problem.eos_id
    lacking = 0
    if required is not None:
        progress, shares = gather_beams((live.progress, live.shares), parents)
        lacking = (~is_met(required, progress.counts)).sum(axis=-1)
        # A hypothesis that is made to end at its limit without its phrases is cut.
        ends &= (lacking == 0) | (position + 1 < problem.max_lengths[:, None])
    lengths = jnp.full_like(chosen, position + 1)
    is_finished = ends & _is_real(best)
    scores = problem.scorer.score(best, lengths) + state_scores - LACKING * lacking
    scores = jnp.where(is_finished, scores, NEG_INF)
    candidates = _concatenate([finished, Hypotheses(tokens, scores, best, lengths, is_finished, gains)])
    _, kept = jax.lax.top_k(candidates.scores, width)

    to_go_on = jnp.where(ends, NEG_INF, rank)
    if required is None:
        progress = shares = None
        _, alive = jax.lax.top_k(to_go_on, width)
    else:
        progress = advance(required, progress, chosen, shares >= BEGIN)
        alive = allocate(to_go_on, banks(required, progress.counts, begun(required, progress)), width)
    continued = _Live(tokens, gains, jnp.where(ends, NEG_INF, best), state_scores, progress, shares)
    live, parents = gather_beams((continued, parents), alive)
    return live, gather_beams(candidates, kept), parents


def _without_early_end(log_probs: jax.Array, may_end: jax.Array, eos_id: int) -> jax.Array:
    """log_probs [B, W, V] without EOS for hypotheses that may not end [B, W] and can go on."""
    is_eos = (jnp.arange(log_probs.shape[2]) == eos_id)[None, None]
    can_go_on = _is_real(jnp.where(is_eos, NEG_INF, log_probs).max(axis=2))
    return jnp.where(is_eos & (can_go_on & ~may_end)[:, :, None], NEG_INF, log_probs)


def _may_end(live: _Live, required: Required) -> jax.Array:
    """Whether [B, W] live hypotheses have all phrases that they must not end without: those without a place."""
    is_enough = is_met(required, live.progress.counts)
    if required.places is not None:
        is_enough |= has_place(required)[:, None]
    return is_enough.all(axis=-1)


def _wanted(live: _Live, problem: SearchProblem) -> jax.Array:
    """[B, W, G * A + 1] ids that bring hypotheses closer to their phrases, and EOS once they have all; else NONE."""
    required = problem.required
    counts = live.progress.counts
    parts = begun(required, live.progress)
    wanted = wanted_tokens(required, counts, parts, live.shares >= BEGIN)
    has_all = is_met(required, counts).all(axis=-1) & required.exists[:, None]
    eos = jnp.where(has_all, problem.eos_id, NONE)
    return jnp.concatenate([wanted.reshape(*counts.shape[:2], -1), eos[..., None]], axis=-1)


def most_wanted(wanted: jax.Array, progress: Progress, ranking: jax.Array, required: Required) -> jax.Array:
    """At most MOST_WANTED of `wanted` [B, W, N]: those that go on with a phrase, then the best by ranking [B, W, V].

    Each is a candidate of its own, W * N in all, and hardly any is kept.
    """
    number = wanted.shape[-1]
    if isinstance(number, int) and number <= MOST_WANTED:  # symbolic in an export
        return wanted
    batch, width, vocab_size = ranking.shape
    goes_on = (begun(required, progress) > 0).reshape(batch, width, -1)
    continued = jnp.where(goes_on, wanted[..., :-1], NONE)

    values = jnp.where(one_of(continued, vocab_size), ranking + FIRST, ranking)
    values = jnp.where(one_of(wanted, vocab_size), values, NEG_INF)
    count = min(MOST_WANTED, vocab_size)
    rows = values.reshape(-1, vocab_size)
    values, ids = blockwise_top_k(rows, count)
    return jnp.where(_is_real(values), ids, NONE).reshape(batch, width, -1)


def _with_wanted(
    rank: jax.Array, index: jax.Array, ranking: jax.Array, wanted: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The candidates [B, K], and after them the continuations with `wanted` tokens [B, W, ...]."""
    batch, width, _ = wanted.shape
    flat = jnp.where(wanted < 0, 0, wanted + jnp.arange(width)[None, :, None] * (ranking.shape[1] // width))
    flat = flat.reshape(batch, -1)
    exists = (wanted >= 0).reshape(batch, -1)
    same = (flat[:, :, None] == flat[:, None]) & exists[:, None]
    is_new = exists & ~jnp.tril(same, -1).any(axis=2) & ~(flat[:, :, None] == index[:, None]).any(axis=2)
    values = jnp.where(is_new, jnp.take_along_axis(ranking, flat, axis=1), NEG_INF)
    return jnp.concatenate([rank, values], axis=1), jnp.concatenate([index, flat], axis=1)


def _follow(state: DecodeState, parents: jax.Array) -> DecodeState:
    """The state of hypotheses that continue parents [B, W]: caches move, ancestry points to slots."""
    batch, width = parents.shape
    rows = (jnp.arange(batch, dtype=jnp.int32)[:, None] * width + parents).reshape(-1)
    state = state._replace(cache=jax.tree.map(lambda x: x[rows], state.cache))
    if state.ancestry is None:
        return state
    ancestry = state.ancestry.at[:, :, state.position - 1].set(jnp.arange(width, dtype=jnp.int32))
    return state._replace(ancestry=gather_beams(ancestry, parents))


def _cannot_improve(
    live: _Live, finished: Hypotheses, position: jax.Array, problem: SearchProblem, groups: int
) -> jax.Array:
    """Whether [B], in each group, no live hypothesis is expected to overtake the worst of W finished ones any more.

    Each is bounded as if it ended after LOOK_AHEAD more tokens. With max_lengths, at which the score of any is divided
    by a large number, searches took 1.5 to 1.8 times as long, and found another translation for 1 of 1,800 sentences.

    Required phrases make hypotheses less probable, so hardly any search would stop early. So hypotheses that lack a
    phrase are ignored, and the others are bounded as if they ended with the next token.
    """
    batch, width = live.log_probs.shape
    size = width // groups
    log_probs = live.log_probs
    lengths = jnp.minimum(problem.max_lengths, position + 1 + LOOK_AHEAD)
    if problem.required is not None:
        log_probs = jnp.where(is_met(problem.required, live.progress.counts).all(axis=-1), log_probs, NEG_INF)
        lengths = jnp.where(problem.required.exists, jnp.minimum(lengths, position + 2), lengths)
    # Not a group's first: the penalty for diversity may rank a more probable hypothesis after it.
    best = log_probs.reshape(batch, groups, size).max(axis=2)
    worst = finished.scores[:, size - 1 :: size]
    return jnp.all(worst >= problem.scorer.bound(best, lengths[:, None]), axis=1)


def _best(live: _Live, finished: Hypotheses, problem: SearchProblem) -> Hypotheses:
    """The W best of a group."""
    width = finished.scores.shape[1]
    lengths = jnp.broadcast_to(problem.max_lengths[:, None], finished.lengths.shape).astype(jnp.int32)
    scores = problem.scorer.score(live.log_probs, lengths) + live.state_scores
    is_finished = jnp.zeros_like(finished.is_finished)
    cut = Hypotheses(live.tokens, scores, live.log_probs, lengths, is_finished, live.token_log_probs)
    return jax.tree.map(lambda x: x[:, :width], _sort(_concatenate([finished, cut])))


def _merge(best: Sequence[Hypotheses], problem: SearchProblem) -> Hypotheses:
    """The hypotheses of all groups, each once; missing ones are blank."""
    merged = _concatenate(best)
    if len(best) > 1:
        merged = _sort(merged)
        same = jnp.all(merged.tokens[:, :, None] == merged.tokens[:, None], axis=-1)
        same &= merged.lengths[:, :, None] == merged.lengths[:, None]
        is_repeat = jnp.any(jnp.tril(same, -1), axis=-1)
        merged = _sort(merged._replace(log_probs=jnp.where(is_repeat, NEG_INF, merged.log_probs)))
    # There may be fewer than W hypotheses.
    blank = Hypotheses(problem.pad_id, NEG_INF, NEG_INF, lengths=0, is_finished=False, token_log_probs=0.0)
    return _select(_is_real(merged.log_probs), merged, blank)


def _sort(hypotheses: Hypotheses) -> Hypotheses:
    """Finished ones, cut ones, then those that do not exist; each by score, stable."""
    kind = jnp.where(_is_real(hypotheses.log_probs), ~hypotheses.is_finished, 2)
    return gather_beams(hypotheses, jnp.lexsort((-hypotheses.scores, kind), axis=1))


def _select(mask: jax.Array, chosen: Any, other: Any) -> Any:
    """The leaves [B, ...] of one tree where the mask [B] or [B, W] is true, else those of the other."""

    def pick(x: jax.Array, y: Any) -> jax.Array:
        return jnp.where(mask.reshape(*mask.shape, *[1] * (x.ndim - mask.ndim)), x, y)

    return jax.tree.map(pick, chosen, other)


def _is_real(values: jax.Array) -> jax.Array:
    return values > NEG_INF / 2


def _split(tree: Any, groups: int) -> list[Any]:
    """A tree of [B, W / groups, ...] for each group, from one of [B, W, ...]."""
    leaves, treedef = jax.tree.flatten(tree)
    parts = [jnp.split(x, groups, axis=1) for x in leaves]
    return [jax.tree.unflatten(treedef, part) for part in zip(*parts, strict=True)]


def _concatenate(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *x: jnp.concatenate(x, axis=1), *trees)
