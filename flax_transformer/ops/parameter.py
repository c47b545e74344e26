"""A module's parameter, made or given."""

from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
from flax.errors import ScopeParamShapeError


def parameter(module: nn.Module, name: str, init: Callable[..., Any], shape: Sequence[int], *rest: Any) -> Any:
    """`module.param(name, init, shape, *rest)`, which traces the initializer only where the parameter is to be made.

    Linen traces it each time to compare shapes, which is a fifth of tracing a search. What is given may be another
    form of a weight (product.py), whatever its shapes.

    Raises ScopeParamShapeError if an array of another shape is given.
    """
    if not module.has_variable('params', name):
        return module.param(name, init, shape, *rest)
    value = module.get_variable('params', name)
    if hasattr(value, 'shape') and value.shape != tuple(shape):
        raise ScopeParamShapeError(name, '/'.join(module.path), value.shape, shape)
    return value
