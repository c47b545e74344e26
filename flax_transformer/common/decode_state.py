"""The value that a model and a search exchange while they decode: all that they know of each other."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax


class Slots(Protocol):
    """What W hypotheses wrote at L positions, such as keys and values: a tree of arrays."""

    def with_room(self, slots: int) -> 'Slots':
        """The same with L * W = `slots`, more than there were."""


class DecodeState(NamedTuple):
    """What a model carries from one token to the next; B sentences, W hypotheses each, N = B * W, L positions."""

    cache: Any  # a tree of [N, ...]: each hypothesis's own, reordered with the beams
    shared: Any  # a tree of [B, ...]: computed once per sentence, read by all of its hypotheses, never copied
    position: jax.Array  # tokens decoded so far, a scalar
    # A tree of `Slots`: what was written at each position. It stays where it was written and grows by blocks: a model
    # starts without slots, and the search makes room.
    slots: Any = ()
    # [B, W, L]: the hypothesis whose slot each hypothesis reads at each earlier position; None: its own.
    ancestry: jax.Array | None = None


# (tokens [N], state) -> (logits [N, V] of the next token, the state after it)
Step = Callable[[jax.Array, DecodeState], tuple[jax.Array, DecodeState]]
