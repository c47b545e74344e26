"""What JAX traces of a function: its products, and in which precision it sums."""

import math
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
from jax.extend.core import jaxprs_in_params


def products(jaxpr: Any) -> int:
    """FLOPs of all matrix products of a jaxpr, those of its parts too; of a scan's, at each of its steps."""
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == 'dot_general':
            left = equation.invars[0].aval.shape
            (contracted, _), _ = equation.params['dimension_numbers']
            total += 2 * math.prod(equation.outvars[0].aval.shape) * math.prod(left[i] for i in contracted)
        times = equation.params['length'] if equation.primitive.name == 'scan' else 1
        for inner in jaxprs_in_params(equation.params):
            total += times * products(inner)
    return total


def equations(jaxpr: Any) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from equations(inner)


def sums_over_tokens(jaxpr: Any, tokens: set[int]) -> Iterator[tuple[str, jnp.dtype]]:
    """What sums over an axis of one of the sizes `tokens`, as text, and the dtype of the result."""
    for equation in equations(jaxpr):
        name, operands = equation.primitive.name, [getattr(x, 'aval', None) for x in equation.invars]
        summed: set[int] = set()
        if name == 'dot_general':
            (axes, _), _ = equation.params['dimension_numbers']
            summed = {operands[0].shape[axis] for axis in axes}
        elif name == 'reduce_sum':
            summed = {operands[0].shape[axis] for axis in equation.params['axes']}
        elif name.replace('_', '-') == 'scatter-add':
            summed = tokens
        if summed & tokens:
            out = equation.outvars[0].aval
            yield f'{name} of {", ".join(map(str, operands))} is {out}', out.dtype
