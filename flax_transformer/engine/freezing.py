"""Which parameters are frozen: those whose path a pattern matches, such as `encoder/.*` or `embedding/table`."""

import re
from collections.abc import Sequence
from typing import Any

import jax

from flax_transformer.common.errors import UserError
from flax_transformer.common.trees import named_leaves


def frozen_by(patterns: Sequence[str], params: Any) -> Any:
    """A tree of bools as `params`: whether one of the patterns matches the whole path of the parameter.

    Raises UserError, with the paths that there are, for a pattern that matches none, and where all are frozen.
    """
    paths = [path for path, _ in named_leaves(params)]
    idle = [pattern for pattern in patterns if not any(re.fullmatch(pattern, path) for path in paths)]
    found = [any(re.fullmatch(pattern, path) for pattern in patterns) for path in paths]
    if idle or all(found):
        what = f'{", ".join(map(repr, idle))} matches no parameter' if idle else 'nothing is left to be trained'
        raise UserError(f'optimizer.freeze: {what}. There are\n' + '\n'.join(f'  {path}' for path in paths))
    return jax.tree.unflatten(jax.tree.structure(params), found)


def stop_gradients(params: Any, is_frozen: Any) -> Any:
    """The parameters, of which the frozen ones get no gradients."""
    return jax.tree.map(lambda frozen, x: jax.lax.stop_gradient(x) if frozen else x, is_frozen, params)


def keep_frozen(old: Any, new: Any, is_frozen: Any) -> Any:
    """`new`, but the frozen ones as they were: adding zeros, or averaging equal numbers, would change their bits."""
    return jax.tree.map(lambda frozen, old, new: old if frozen else new, is_frozen, old, new)
