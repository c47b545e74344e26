"""A scan whose weights get their gradients after it, from one product each.

Differentiated by JAX, a scan reads and writes the gradient of a whole matrix at every step. Here the backward scan
computes only the gradients of each product's result; the weight's is the product of all inputs with all of these.

Arrays over time have T first.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from flax_transformer.ops.int8 import Int8
from flax_transformer.ops.product import product

ROWS = 'BH,HF->BF'  # a product with a matrix of weights, the same for each row
Times = Callable[..., jax.Array]  # (name of a weight, x [B, ...], einsum equation = ROWS) -> float32
Step = Callable[[Times, Any, Any, Any], tuple[Any, Any]]  # (times, constants, state, x) -> (state, y)


def times(weight: jax.Array | Int8, x: jax.Array, equation: str = ROWS) -> jax.Array:
    if equation == ROWS:
        return product(x, weight, dtype=jnp.float32)
    return jnp.einsum(equation, x, weight.astype(x.dtype), preferred_element_type=jnp.float32)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def recur(step: Step, weights: dict[str, Any], constants: Any, state: Any, xs: Any) -> tuple[Any, Any]:
    """The state after, and the stacked results [T, ...] of, `step(times, constants, state, x)` for each x of xs.

    As `jax.lax.scan`, except that a step multiplies by `times(name, x, equation)`, exactly once for each of `weights`.
    Other arrays that every step reads are `constants`: the step closes over none.
    """

    def times_named(name: str, x: jax.Array, equation: str = ROWS) -> jax.Array:
        return times(weights[name], x, equation)

    def body(state: Any, x: Any) -> tuple[Any, Any]:
        return step(times_named, constants, state, x)

    return jax.lax.scan(body, state, xs)


def _forward(step: Step, weights: dict[str, jax.Array], constants: Any, state: Any, xs: Any) -> tuple[Any, Any]:
    length = len(jax.tree.leaves(xs)[0])
    equations = {}

    def run(constants: Any, state: Any, xs: Any, taps: dict[str, jax.Array]) -> tuple[Any, Any]:
        def body(state: Any, x_and_taps: Any) -> tuple[Any, Any]:
            x, taps = x_and_taps
            inputs = {}

            def times(name: str, x: jax.Array, equation: str = ROWS) -> jax.Array:
                inputs[name] = x
                equations[name] = equation
                return _tapped(equation, x, weights[name].astype(x.dtype), taps[name])

            state, y = step(times, constants, state, x)
            return state, (y, inputs)

        state, (ys, inputs) = jax.lax.scan(body, state, (xs, taps))
        return (state, ys), inputs

    taps = _taps(step, weights, constants, state, xs, length)
    result, vjp, inputs = jax.vjp(run, constants, state, xs, taps, has_aux=True)
    return result, (vjp, inputs, weights, _Static(equations))


@jax.tree_util.register_static
class _Static(dict):
    def __hash__(self) -> int:
        return hash(tuple(sorted(self.items())))


def _taps(step: Step, weights: Any, constants: Any, state: Any, xs: Any, length: int) -> dict[str, jax.Array]:
    """Zeros [T, ...] in the shape of each product of a step, whose gradients are those of the products."""
    shapes = {}

    def once(weights: Any, constants: Any, state: Any, xs: Any) -> Any:
        def noted(name: str, x: jax.Array, equation: str = ROWS) -> jax.Array:
            assert name not in shapes, f'{name}: a second product would lose the gradient of the first'
            result = times(weights[name], x, equation)
            shapes[name] = (length, *result.shape), x.dtype
            return result

        return step(noted, constants, state, jax.tree.map(lambda x: x[0], xs))

    jax.eval_shape(once, weights, constants, state, xs)
    return {name: jnp.zeros(*shape) for name, shape in shapes.items()}


def _backward(step: Step, kept: tuple[Any, ...], grad_result: Any) -> tuple[Any, ...]:
    vjp, inputs, weights, equations = kept
    grad_constants, grad_state, grad_xs, grad_products = vjp(grad_result)
    grad_weights = {}
    for name, weight in weights.items():
        x, weight_axes, out = _axes(equations[name])
        equation = f'T{x},T{out}->{weight_axes}'
        gradient = jnp.einsum(equation, inputs[name], grad_products[name], preferred_element_type=jnp.float32)
        grad_weights[name] = gradient.astype(weight.dtype)
    return grad_weights, grad_constants, grad_state, grad_xs


recur.defvjp(_forward, _backward)


def _axes(equation: str) -> tuple[str, str, str]:
    inputs, _, out = equation.partition('->')
    x, _, weight = inputs.partition(',')
    return x, weight, out


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _tapped(equation: str, x: jax.Array, weight: jax.Array, tap: jax.Array) -> jax.Array:
    """The product in float32; its gradient goes to x and to `tap`, not to the weight."""
    del tap
    return jnp.einsum(equation, x, weight, preferred_element_type=jnp.float32)


def _tapped_forward(equation: str, x: jax.Array, weight: jax.Array, tap: jax.Array) -> tuple[jax.Array, jax.Array]:
    return _tapped(equation, x, weight, tap), weight


def _tapped_backward(equation: str, weight: jax.Array, grad_product: jax.Array) -> tuple[jax.Array, None, jax.Array]:
    grad_product = grad_product.astype(weight.dtype)
    x, weight_axes, out = _axes(equation)
    grad_x = jnp.einsum(f'{out},{weight_axes}->{x}', grad_product, weight, preferred_element_type=jnp.float32)
    return grad_x.astype(weight.dtype), None, grad_product


_tapped.defvjp(_tapped_forward, _tapped_backward)
