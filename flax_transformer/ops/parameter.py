"""A module's parameter, made or given."""

from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
from flax.errors import ScopeParamShapeError


def parameter(module: nn.Module, name: str, init: Callable[..., Any], shape: Sequence[int], *rest: Any) -> Any:
    """`module.param(name, init, shape, *rest)`, which traces the initializer only where the parameter is to be made.

    Linen traces it each time to compare shapes, which takes a fifth of the time to trace a search. What is given may be
    another form of a weight (product.py).

    Raises ScopeParamShapeError if what is given has another shape.
    """
    if not module.has_variable('params', name):
        return module.param(name, init, shape, *rest)
    value = nn.meta.unbox(module.get_variable('params', name))
    if value.shape != tuple(shape):
        raise ScopeParamShapeError(name, '/'.join(module.path), value.shape, shape)
    return value
