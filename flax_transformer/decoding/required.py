"""Phrases that a translation must contain: dynamic beam allocation (Post and Vilar 2018), vectorized (Hu et al. 2019).

A phrase counts wherever its tokens stand in a row, so phrases may overlap; one that is required twice must occur twice.
Shapes: B sentences, G phrases of each, A alternatives of a phrase, P tokens of an alternative, K candidates.
"""

import jax
import jax.numpy as jnp

from .problem import NEG_INF, NONE, Required


def make_required(phrases: jax.Array) -> Required:
    """Requires `phrases` [B, G, A, P], each as often as it is repeated."""
    is_phrase = (phrases != NONE).any(axis=(2, 3))
    same = (phrases[:, :, None] == phrases[:, None]).all(axis=(3, 4))  # [B, G, G]
    return Required(phrases, jnp.where(is_phrase, jnp.tril(same).sum(axis=2), 0))


def is_met(required: Required, counts: jax.Array) -> jax.Array:
    """[B, K, G] whether each phrase has occurred often enough, by the `counts` [B, K, G, A] of its alternatives."""
    return counts.sum(axis=-1) >= required.times[:, None]


def tails(required: Required, tokens: jax.Array, position: jax.Array) -> jax.Array:
    """[B, W, P] the last tokens of hypotheses [B, W, L] of `position` tokens; NONE before the first."""
    size = required.phrases.shape[-1]
    padded = jnp.pad(tokens, ((0, 0), (0, 0), (size, 0)), constant_values=NONE)
    return jax.lax.dynamic_slice_in_dim(padded, position, size, axis=2)


def advance(required: Required, counts: jax.Array, tail: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The counts after the last token of `tail` [B, K, P], and how many tokens of each alternative it ends with.

    The second, [B, K, G, A], counts unfinished alternatives only.
    """
    phrases = required.phrases[:, None]
    size = required.phrases.shape[-1]
    lengths = (phrases != NONE).sum(axis=-1)
    begun = jnp.zeros(counts.shape, jnp.int32)
    is_complete = jnp.zeros(counts.shape, bool)
    for number in range(1, size + 1):
        ends_with = (tail[:, :, None, None, size - number :] == phrases[..., :number]).all(axis=-1)
        begun = jnp.where(ends_with & (number < lengths), number, begun)
        is_complete |= ends_with & (number == lengths)
    return counts + is_complete, begun


def wanted_tokens(required: Required, counts: jax.Array, begun: jax.Array, eos_id: int) -> jax.Array:
    """[B, K, G * A + 1] ids that bring hypotheses closer to their phrases, and EOS once they have all; else NONE."""
    phrases = jnp.broadcast_to(required.phrases[:, None], (*begun.shape, required.phrases.shape[-1]))
    following = jnp.take_along_axis(phrases, begun[..., None], axis=-1)[..., 0]
    met = is_met(required, counts)
    following = jnp.where(met[..., None], NONE, following).reshape(*met.shape[:2], -1)
    may_end = met.all(axis=-1) & required.exists[:, None]
    return jnp.concatenate([following, jnp.where(may_end, eos_id, NONE)[..., None]], axis=-1)


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
