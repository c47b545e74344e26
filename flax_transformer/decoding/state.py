"""What every search works with: the history of a hypothesis, transforms, the hypotheses found, room in the state."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from flax_transformer.common.decode_state import DecodeState

NEG_INF = -1e9  # finite: differences of two of them stay numbers
FIRST_STAGE = 32  # positions


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
