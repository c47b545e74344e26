"""Trees of arrays: the names of their leaves, and the tree that a model and a search exchange while decoding."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from .errors import UserError


def path_name(path: Any) -> str:
    """A leaf's path as `encoder/layers_0/feed_forward/inner/kernel`."""
    return jax.tree_util.keystr(path, simple=True, separator='/')


def named_leaves(tree: Any) -> Iterator[tuple[str, Any]]:
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        yield path_name(path), leaf


def refuse_non_finite(tree: Any) -> None:
    """Raises UserError, naming the first, if a leaf holds NaN or infinity."""
    for name, leaf in named_leaves(tree):
        if not np.isfinite(np.asarray(leaf)).all():
            raise UserError(
                f'{name} holds numbers that are not finite: it is damaged, or training diverged; choose another --step'
            )


def shapes_on_one_device(tree: Any) -> Any:
    """The tree's shapes and dtypes, placed on the first device of this process."""
    sharding = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), tree)


class DecodeState(NamedTuple):
    """The state that a model carries from one token to the next.

    B sentences, W hypotheses each, N = B * W, L positions.
    """

    cache: Any  # a tree of [N, ...]: one entry per hypothesis, reordered with the beams
    shared: Any  # a tree of [B, ...]: one entry per sentence, read by all of its hypotheses, never copied
    position: jax.Array  # number of tokens decoded so far, a scalar
    # Trees of arrays [B * any, ...] with entries of W hypotheses at L positions, never reordered. A model starts
    # without room; the search adds some in stages: `with_room(slots)` gives the same with L * W = slots,
    # more than before.
    slots: Any = ()
    # [B, W, L]: the hypothesis whose slot each hypothesis reads at each earlier position. None: its own.
    ancestry: jax.Array | None = None


# (tokens [N], state) -> (logits [N, V] of the next token, the next state)
Step = Callable[[jax.Array, DecodeState], tuple[jax.Array, DecodeState]]
