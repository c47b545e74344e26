"""Products of unsigned and signed bytes, for which x86 processors have instructions (VNNI).

XLA for CPUs has fast kernels for them, but `jax.lax.dot_general` converts operands of different dtypes to that of the
result first, except on TPUs. So the operation is written here as a primitive of its own. It takes 0.4 of the time of
signed bytes for 512 rows on Zen 5 with JAX 0.10, and 0.9 with JAX 0.12, which has those instructions for signed ones.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import batching, mlir

_unsigned_product = Primitive('unsigned_product')


@jax.jit(static_argnames='axis')
def unsigned_product(rows: jax.Array, weight: jax.Array, axis: int) -> jax.Array:
    """[N, F], int32, of uint8 rows [N, D] and an int8 weight [D, F], or [F, D] with axis 1, that of D."""
    return _unsigned_product.bind(rows, weight, axis=axis)


def integer_product(rows: jax.Array, weight: jax.Array, axis: int) -> jax.Array:
    """The same of rows of any integers, as JAX writes it."""
    along = (((1,), (axis,)), ((), ()))
    return jax.lax.dot_general(rows, weight, along, preferred_element_type=jnp.int32)


@_unsigned_product.def_abstract_eval
def _shape(rows: Any, weight: Any, *, axis: int) -> jax.core.ShapedArray:
    return jax.core.ShapedArray((rows.shape[0], weight.shape[1 - axis]), jnp.int32)


def _lowered(context: mlir.LoweringRuleContext, rows: ir.Value, weight: ir.Value, *, axis: int) -> list[ir.Value]:
    [result] = context.avals_out
    numbers = stablehlo.DotDimensionNumbers.get(
        lhs_batching_dimensions=[],
        rhs_batching_dimensions=[],
        lhs_contracting_dimensions=[1],
        rhs_contracting_dimensions=[axis],
    )
    kind = ir.RankedTensorType.get(result.shape, ir.IntegerType.get_signless(32))
    return [stablehlo.dot_general(kind, rows, weight, numbers)]


def _batched(operands: tuple[Any, Any], axes: tuple[Any, Any], *, axis: int) -> tuple[jax.Array, int]:
    """`jax.vmap` of it: right, not fast."""
    return jax.vmap(lambda rows, weight: integer_product(rows, weight, axis), axes)(*operands), 0


mlir.register_lowering(_unsigned_product, _lowered)
batching.primitive_batchers[_unsigned_product] = _batched
