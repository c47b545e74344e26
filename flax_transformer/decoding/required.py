"""Phrases that a translation must contain: dynamic beam allocation (Post and Vilar 2018), vectorized (Hu et al. 2019).

A phrase counts where its tokens stand in a row. Occurrences of one phrase, in any of its alternatives, do not overlap;
those of different phrases may. One with a place counts only if it begins where the hypothesis attends to its place.
Shapes: B sentences, G phrases of each, A alternatives of a phrase, P tokens of an alternative, K candidates, S source.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from .problem import NEG_INF, NONE, Required

BEGIN = 0.25  # share of the attention to its place from which a phrase may begin
MUST = 0.45  # and from which nothing else may be said there
COST = 0.1  # share of what its tokens cost more than the model's own that they do cost
SURE = 0.3  # probability from which a word that the model would have said in its place is not said later


class Progress(NamedTuple):
    """How far hypotheses have come."""

    counts: jax.Array  # [B, K, G] how often each phrase has occurred
    reached: jax.Array  # [B, K, G, A, P] whether the last 1, 2, ... tokens begin an alternative that might begin there
    has_ended: jax.Array  # [B, K, G] whether one ends with the last token
    replaced: jax.Array  # [B, K, G] what the model would have said in its place, or NONE


def make_required(phrases: jax.Array, places: jax.Array | None = None, glued: Sequence[int] = ()) -> Required:
    """Requires `phrases` [B, G, A, P], each as often as it is repeated."""
    is_phrase = (phrases != NONE).any(axis=(2, 3))
    same = (phrases[:, :, None] == phrases[:, None]).all(axis=(3, 4))  # [B, G, G]
    if places is not None:
        same &= (places[:, :, None] == places[:, None]).all(axis=3)
    return Required(phrases, jnp.where(is_phrase, jnp.tril(same).sum(axis=2), 0), places, glued)


def first_progress(required: Required, width: int) -> Progress:
    batch, count, *size = required.phrases.shape
    nothing = jnp.zeros((batch, width, count), jnp.int32)
    return Progress(nothing, jnp.zeros((*nothing.shape, *size), bool), nothing > 0, nothing + NONE)


def is_met(required: Required, counts: jax.Array) -> jax.Array:
    """[B, K, G] whether each phrase has occurred often enough."""
    return counts >= required.times[:, None]


def has_place(required: Required) -> jax.Array:
    """[B, G]"""
    return required.places[..., 0] < required.places[..., 1]


def attended(required: Required, attention: jax.Array) -> jax.Array:
    """The share [B, W, G] of the attention [B, W, S] that each phrase's place has; 1 without a place."""
    position = jnp.arange(attention.shape[-1])[None, None]
    is_place = (required.places[..., :1] <= position) & (position < required.places[..., 1:])  # [B, G, S]
    share = jnp.where(is_place[:, None], attention[:, :, None], 0.0).sum(axis=-1)
    return jnp.where(has_place(required)[:, None], share, 1.0)


def begun(required: Required, progress: Progress) -> jax.Array:
    """[B, K, G, A] how many tokens of each unfinished alternative hypotheses end with."""
    return _longest(required, _to_go_on(progress))


def advance(required: Required, progress: Progress, tokens: jax.Array, may_begin: jax.Array) -> Progress:
    """The progress after one more of `tokens` [B, K], with which a phrase may begin or not [B, K, G]."""
    before = _to_go_on(progress)[..., :-1]
    begins = jnp.broadcast_to(may_begin[..., None, None], (*before.shape[:-1], 1))
    is_next = required.phrases[:, None] == tokens[:, :, None, None, None]
    reached = jnp.concatenate([begins, before], axis=-1) & is_next

    number, lengths = _numbers(required)
    is_complete = (reached & (number == lengths)).any(axis=(3, 4))
    return Progress(progress.counts + is_complete, reached, is_complete, progress.replaced)


def _to_go_on(progress: Progress) -> jax.Array:
    """`reached`, without phrases that have just ended: what counted once is no part of the next occurrence."""
    return progress.reached & ~progress.has_ended[..., None, None]


def _longest(required: Required, reached: jax.Array) -> jax.Array:
    number, lengths = _numbers(required)
    return jnp.where(reached & (number < lengths), number, 0).max(axis=-1)


def _numbers(required: Required) -> tuple[jax.Array, jax.Array]:
    """1 to P, and how many tokens each alternative has [B, 1, G, A, 1]."""
    number = jnp.arange(1, required.phrases.shape[-1] + 1, dtype=jnp.int32)
    return number[None, None, None, None], (required.phrases != NONE).sum(axis=-1)[:, None, ..., None]


def wanted_tokens(required: Required, counts: jax.Array, begun: jax.Array, may_begin: jax.Array) -> jax.Array:
    """[B, K, G, A] ids that bring hypotheses closer to their phrases; else NONE."""
    is_wanted = ((begun > 0) | may_begin[..., None]) & ~is_met(required, counts)[..., None]
    return jnp.where(is_wanted, next_tokens(required, begun), NONE)


def next_tokens(required: Required, begun: jax.Array) -> jax.Array:
    """[B, K, G, A] the ids that continue alternatives of which `begun` tokens are there."""
    phrases = jnp.broadcast_to(required.phrases[:, None], (*begun.shape, required.phrases.shape[-1]))
    return jnp.take_along_axis(phrases, begun[..., None], axis=-1)[..., 0]


def steer(
    log_probs: jax.Array,
    required: Required,
    progress: Progress,
    wanted: jax.Array,
    shares: jax.Array,
) -> tuple[jax.Array, Progress]:
    """log_probs [B, W, V] that put phrases with places there, and the progress with what they replace.

    At its place, by `shares` [B, W, G], and within it only `wanted` tokens [B, W, ...] are left. After it no word goes
    on, unless another alternative does, and what the model would have said in its place is not said.
    """
    vocab_size = log_probs.shape[-1]
    placed = has_place(required)[:, None]
    parts = begun(required, progress).max(axis=-1)
    lacks = placed & ~is_met(required, progress.counts)
    is_due = lacks & ((shares >= MUST) | (parts > 0))

    is_wanted = one_of(wanted, vocab_size) & (log_probs > NEG_INF / 2)
    must = is_due.any(axis=-1) & is_wanted.any(axis=-1)
    best = log_probs.max(axis=-1)
    own = jnp.argmax(log_probs, axis=-1)
    is_own_wanted = jnp.take_along_axis(is_wanted, own[..., None], axis=-1)[..., 0]
    is_replaced = must & ~is_own_wanted & (best > jnp.log(SURE))
    is_replaced = is_due & (parts == 0) & is_replaced[..., None]
    progress = progress._replace(replaced=jnp.where(is_replaced, own[..., None], progress.replaced))

    cost = COST * (log_probs - best[..., None]) + best[..., None]
    log_probs = jnp.where(must[..., None], jnp.where(is_wanted, cost, NEG_INF), log_probs)
    has_ended = (progress.has_ended & placed).any(axis=-1)
    longer = next_tokens(required, _longest(required, progress.reached))
    is_glued = jnp.isin(jnp.arange(vocab_size), jnp.array(required.glued, jnp.int32))[None, None]
    is_glued &= has_ended[..., None] & ~one_of(longer, vocab_size)
    is_banned = is_glued | one_of(progress.replaced, vocab_size)
    return jnp.where(is_banned & ~is_wanted, NEG_INF, log_probs), progress


def one_of(ids: jax.Array, vocab_size: int) -> jax.Array:
    """[B, W, V] whether a token is one of the ids [B, W, ...], some of which may be NONE."""
    ids = ids.reshape(*ids.shape[:2], -1)
    rows = jnp.arange(ids.shape[0])[:, None, None], jnp.arange(ids.shape[1])[None, :, None]
    there = jnp.zeros((*ids.shape[:2], vocab_size + 1), bool)
    return there.at[*rows, jnp.where(ids < 0, vocab_size, ids)].set(True)[..., :-1]


def banks(required: Required, counts: jax.Array, begun: jax.Array) -> jax.Array:
    """[B, K] how close hypotheses are to having all phrases: P for each, and the tokens of another that is begun.

    Were all that is begun one bank, a rare word would be begun again and again rather than finished.
    """
    met = is_met(required, counts)
    progress = jnp.where(met[..., None], 0, begun).max(axis=(2, 3))
    return required.phrases.shape[-1] * (met & (required.times > 0)[:, None]).sum(axis=-1) + progress


def allocate(scores: jax.Array, bank: jax.Array, width: int) -> jax.Array:
    """Indices [B, W] of the candidates [B, K] to keep: the best of each bank in turn, then the second best of each.

    The best of all comes first, then the fuller banks. In a single bank the best W are kept, in their order.
    """
    count = scores.shape[1]
    before = scores[:, None] > scores[:, :, None]  # [B, i, j]: j ranks before i
    before |= (scores[:, None] == scores[:, :, None]) & jnp.tril(jnp.ones((1, count, count), bool), -1)
    rank = (before & (bank[:, None] == bank[:, :, None])).sum(axis=2)
    is_best = before.sum(axis=2) == 0
    rank = jnp.where(scores > NEG_INF / 2, rank, count)  # what does not exist comes last
    order = jnp.lexsort((-scores, -bank, ~is_best, rank), axis=1)
    return order[:, :width]
