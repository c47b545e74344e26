"""Frozen parameters: those whose path a pattern matches, such as `encoder/.*` or `embedding/table`."""

import re
from collections.abc import Sequence
from typing import Any

import jax

from flax_transformer.common.errors import UserError
from flax_transformer.common.trees import named_leaves


def frozen_by(patterns: Sequence[str], params: Any) -> Any:
    """Whether a pattern matches a parameter's whole path, as a tree of bools like `params`.

    Raises UserError, which lists all paths, if a pattern matches none or if everything is frozen.
    """
    paths = [path for path, _ in named_leaves(params)]
    unmatched = [pattern for pattern in patterns if not any(re.fullmatch(pattern, path) for path in paths)]
    found = [any(re.fullmatch(pattern, path) for pattern in patterns) for path in paths]
    if unmatched or all(found):
        names = ', '.join(map(repr, unmatched))
        problem = f'{names} matches no parameter' if unmatched else 'nothing is left to be trained'
        raise UserError(f'optimizer.freeze: {problem}. There are\n' + '\n'.join(f'  {path}' for path in paths))
    return jax.tree.unflatten(jax.tree.structure(params), found)


def stop_gradients(params: Any, is_frozen: Any) -> Any:
    """The parameters, with no gradients through the frozen ones."""
    return jax.tree.map(lambda frozen, x: jax.lax.stop_gradient(x) if frozen else x, is_frozen, params)


def keep_frozen(old: Any, new: Any, is_frozen: Any) -> Any:
    """`new`, with the frozen ones from `old`: adding zeros, or averaging equal numbers, may change bits."""
    return jax.tree.map(lambda frozen, old, new: old if frozen else new, is_frozen, old, new)
