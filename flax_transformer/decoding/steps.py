"""What every search speaks of: steps and their state, the history of a hypothesis, what is found."""

from collections.abc import Callable, Sequence
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


class History(NamedTuple):
    """What a transform may look at."""

    tokens: jax.Array  # [N, L] chosen so far; what lies at `position` and behind means nothing
    position: jax.Array  # tokens chosen so far, a scalar
    log_probs: jax.Array  # [N, V] of the next token under the model, before any transform


# The log-probabilities [N, V] of the next token, changed; what must not be chosen gets NEG_INF.
Transform = Callable[[jax.Array, History], jax.Array]


class Hypotheses(NamedTuple):
    """The best W translations of each sentence, best first; where there are fewer, length 0 and scores of NEG_INF."""

    tokens: jax.Array  # [B, W, L] EOS included where there is one, pad_id behind it
    scores: jax.Array  # [B, W] what the scorer says, such as log-probability / length penalty
    log_probs: jax.Array  # [B, W] sum of the tokens' log-probabilities, nats
    lengths: jax.Array  # [B, W] tokens, EOS counted
    is_finished: jax.Array  # [B, W] False: cut at max_lengths before it said EOS
    token_log_probs: jax.Array  # [B, W, L] nats, 0 behind the hypothesis


def transformed(
    logits: jax.Array, transforms: Sequence[Transform], tokens: jax.Array, position: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Log-probabilities [N, V] under the model, and after the transforms; these need not sum to 1."""
    log_probs = jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1)
    history, changed = History(tokens, position, log_probs), log_probs
    for transform in transforms:
        changed = transform(changed, history)
    return log_probs, changed


def repeat(tree: Any, width: int) -> Any:
    """A tree of [B, ...] as one of [B * W, ...], each sentence's entry W times."""
    return jax.tree.map(lambda x: jnp.repeat(x, width, axis=0), tree) if width > 1 else tree


def ensemble(steps: Sequence[Step], *, mean: str = 'log_probability') -> Step:
    """The step of several models of one vocabulary, over the tuple of their states (see `ensemble_state`).

    `probability`: the arithmetic mean of their distributions. `log_probability`: the geometric mean, normalised.
    """
    if mean not in ('log_probability', 'probability'):
        raise ValueError(f'mean={mean!r}: expected log_probability or probability')

    def step(tokens: jax.Array, state: DecodeState) -> tuple[jax.Array, DecodeState]:
        outputs, caches = [], []
        for one, cache, shared in zip(steps, state.cache, state.shared, strict=True):
            logits, after = one(tokens, DecodeState(cache, shared, state.position))
            outputs.append(jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1))
            caches.append(after.cache)
        stacked = jnp.stack(outputs)
        if mean == 'probability':
            combined = jax.nn.logsumexp(stacked, axis=0) - jnp.log(len(outputs))
        else:
            combined = stacked.mean(axis=0)
        return combined, DecodeState(tuple(caches), state.shared, state.position + 1)

    return step


def ensemble_state(states: Sequence[DecodeState]) -> DecodeState:
    """The state of an `ensemble` from those of its members."""
    return DecodeState(tuple(s.cache for s in states), tuple(s.shared for s in states), states[0].position)
