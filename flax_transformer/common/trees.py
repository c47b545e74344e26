"""Trees of arrays and the names of their leaves."""

from collections.abc import Iterator
from typing import Any

import jax


def path_name(path: Any) -> str:
    """A leaf's path as `encoder/layers_0/feed_forward/inner/kernel`."""
    return jax.tree_util.keystr(path, simple=True, separator='/')


def named_leaves(tree: Any) -> Iterator[tuple[str, Any]]:
    """Every leaf with the name of its path, as `path_name` gives it."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        yield path_name(path), leaf


def shapes_on_one_device(tree: Any) -> Any:
    """The tree's shapes and dtypes, placed on the first device."""
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), tree)
