"""The value that a model and a search exchange while decoding: all that they know of each other."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax


class Slots(Protocol):
    """What W hypotheses wrote at L positions, such as keys and values; a tree of arrays."""

    def with_room(self, slots: int) -> 'Slots':
        """The same with L * W = `slots`, more than before."""


class DecodeState(NamedTuple):
    """What a model carries from one token to the next; B sentences, W hypotheses each, N = B * W, L positions."""

    cache: Any  # a tree of [N, ...]: one entry per hypothesis, reordered with the beams
    shared: Any  # a tree of [B, ...]: one entry per sentence, read by all of its hypotheses, never copied
    position: jax.Array  # number of tokens decoded so far, a scalar
    # A tree of `Slots`, which are never reordered: a model starts without slots, and the search adds room in stages.
    slots: Any = ()
    # [B, W, L]: the hypothesis whose slot each hypothesis reads at each earlier position. None: its own.
    ancestry: jax.Array | None = None


# (tokens [N], state) -> (logits [N, V] of the next token, the next state)
Step = Callable[[jax.Array, DecodeState], tuple[jax.Array, DecodeState]]
