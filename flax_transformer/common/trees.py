"""Trees of arrays and the names of their leaves."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from flax_transformer.common.errors import UserError


def path_name(path: Any) -> str:
    """A leaf's path as `encoder/layers_0/feed_forward/inner/kernel`."""
    return jax.tree_util.keystr(path, simple=True, separator='/')


def named_leaves(tree: Any) -> Iterator[tuple[str, Any]]:
    """Every leaf with the name of its path, as `path_name` gives it."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        yield path_name(path), leaf


def refuse_non_finite(tree: Any) -> None:
    """Raises UserError, naming the first, if a leaf holds NaN or infinity."""
    for name, leaf in named_leaves(tree):
        if not np.isfinite(np.asarray(leaf)).all():
            raise UserError(
                f'{name} holds numbers that are not finite: the parameters are damaged, or training diverged; choose '
                'another checkpoint with --step'
            )


def shapes_on_one_device(tree: Any) -> Any:
    """The tree's shapes and dtypes, placed on the first device."""
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), tree)
