"""What every search speaks of: steps and their state, the history of a hypothesis, what is found."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

NEG_INF = -1e9  # finite: differences of two of them stay numbers
FIRST_STAGE = 32  # positions


class Slots(Protocol):
    """What W hypotheses wrote at L positions, such as an `attention.KVCache`: a tree of arrays."""

    def with_room(self, slots: int) -> 'Slots':
        """The same with L * W = `slots`, more than there were."""


class DecodeState(NamedTuple):
    """What a step function carries from token to token."""

    cache: Any  # a tree of [N, ...]: belongs to one hypothesis, follows it when beams are reordered
    shared: Any  # a tree of [B, ...]: all hypotheses of a sentence read it; computed once, never copied
    position: jax.Array  # tokens decoded so far, a scalar
    # A tree of `Slots`: what the hypotheses wrote at each position. It stays where it was written, and grows by blocks:
    # a search makes room in what it is given, which has none.
    slots: Any = ()
    # [B, W, L] whose slots of each earlier position a hypothesis goes back to; None: always its own.
    ancestry: jax.Array | None = None


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
    logits = logits.astype(jnp.float32)
    # Not jax.nn.log_softmax: for 128 rows XLA on CPUs makes of it a product of half the speed.
    log_probs = logits - jax.nn.logsumexp(logits, axis=-1, keepdims=True)
    history, changed = History(tokens, position, log_probs), log_probs
    for transform in transforms:
        changed = transform(changed, history)
    return log_probs, changed


def repeat(tree: Any, width: int) -> Any:
    """A tree of [B, ...] as one of [B * W, ...], each sentence's entry W times."""
    return jax.tree.map(lambda x: jnp.repeat(x, width, axis=0), tree) if width > 1 else tree


def with_room(state: DecodeState, length: int, width: int) -> DecodeState:
    """The state with slots for `length` positions of W = `width` hypotheses."""
    grown = lambda slots: slots.with_room(length * width)  # each is a tree itself, hence is_leaf
    return state._replace(slots=jax.tree.map(grown, state.slots, is_leaf=lambda x: hasattr(x, 'with_room')))


def stages(state: DecodeState, length: int) -> list[int]:
    """Positions that there is room for, one number after the other, up to `length`: each search step costs as much as
    there are slots, so that a long limit must not cost those who need little."""
    if not jax.tree.leaves(state.slots) or not isinstance(length, int):  # a symbolic length is not compared
        return [length]
    doubled = [FIRST_STAGE * 2**i for i in range(length.bit_length())]
    return [slots for slots in doubled if 1.5 * slots <= length] + [length]


def ensemble(steps: Sequence[Step], *, mean: str = 'log_probability') -> Step:
    """The step of several models of one vocabulary, over the tuple of their states (see `ensemble_state`).

    `probability`: the arithmetic mean of their distributions. `log_probability`: the geometric mean, normalised.
    """
    if mean not in ('log_probability', 'probability'):
        raise ValueError(f'mean={mean!r}: expected log_probability or probability')

    def step(tokens: jax.Array, state: DecodeState) -> tuple[jax.Array, DecodeState]:
        outputs, caches, slots = [], [], []
        for one, *parts in zip(steps, state.cache, state.shared, state.slots, strict=True):
            cache, shared, own = parts
            logits, after = one(tokens, DecodeState(cache, shared, state.position, own, state.ancestry))
            outputs.append(jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1))
            caches.append(after.cache)
            slots.append(after.slots)
        stacked = jnp.stack(outputs)
        if mean == 'probability':
            combined = jax.nn.logsumexp(stacked, axis=0) - jnp.log(len(outputs))
        else:
            combined = stacked.mean(axis=0)
        return combined, state._replace(cache=tuple(caches), slots=tuple(slots), position=state.position + 1)

    return step


def ensemble_state(states: Sequence[DecodeState]) -> DecodeState:
    """The state of an `ensemble` from those of its members."""
    caches, shared, slots = (
        tuple(parts) for parts in zip(*[(s.cache, s.shared, s.slots) for s in states], strict=True)
    )
    return DecodeState(caches, shared, states[0].position, slots)
