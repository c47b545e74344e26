"""What every search does: transformed log-probabilities, room for the next tokens, the loop."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from flax_transformer.common.trees import DecodeState
from flax_transformer.decoding.problem import History, SearchProblem

FIRST_STAGE = 32  # positions


def next_log_probs(
    logits: jax.Array, problem: SearchProblem, tokens: jax.Array, position: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Log-probabilities [N, V] under the model, and after the transforms, which need not normalize them."""
    logits = logits.astype(jnp.float32)
    # Not jax.nn.log_softmax: XLA on CPUs runs it at half the speed for 128 rows.
    log_probs = logits - jax.nn.logsumexp(logits, axis=-1, keepdims=True)
    history, transformed = History(tokens, position, log_probs), log_probs
    for transform in problem.transforms:
        transformed = transform(transformed, history)
    return log_probs, transformed


def repeat(tree: Any, width: int) -> Any:
    """A tree of [B * W, ...] from one of [B, ...]: each sentence's entry W times."""
    return jax.tree.map(lambda x: jnp.repeat(x, width, axis=0), tree) if width > 1 else tree


def gather_beams(tree: Any, index: jax.Array) -> Any:
    """Entries `index` [B, K] of the second axis of every array [B, W, ...]."""
    return jax.tree.map(lambda x: jax.vmap(lambda row, i: row[i])(x, index), tree)


def with_room(state: DecodeState, length: int, width: int) -> DecodeState:
    """The state with slots for `length` positions of W = `width` hypotheses."""
    enlarged = lambda slots: slots.with_room(length * width)
    is_slots = lambda x: hasattr(x, 'with_room')  # each is itself a tree
    return state._replace(slots=jax.tree.map(enlarged, state.slots, is_leaf=is_slots))


def run_search(
    advance: Callable[[Any], Any], is_running: Callable[[Any], jax.Array], carry: Any, *, length: int, width: int
) -> Any:
    """The carry, which has a `position` and a `state`, once no search is running or `length` tokens are chosen."""
    for end in _stages(carry.state, length):
        carry = carry._replace(state=with_room(carry.state, end, width))
        goes_on = lambda carry, end=end: is_running(carry) & (carry.position < end)
        carry = jax.lax.while_loop(goes_on, advance, carry)
    return carry


def _stages(state: DecodeState, length: int) -> list[int]:
    """Slots of each stage of a search, the last `length`: a step's cost grows with the slots, so a high limit must not
    slow down sentences that end early."""
    if not jax.tree.leaves(state.slots) or not isinstance(length, int):  # a symbolic length cannot be compared
        return [length]
    doubled = [FIRST_STAGE * 2**i for i in range(length.bit_length())]
    return [slots for slots in doubled if 1.5 * slots <= length] + [length]
