"""A training state of two small arrays that say their step."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from flax_transformer.engine.task import TrainState


def make_state(step: int, *, ema: bool = False) -> TrainState:
    params = {'w': jnp.arange(6.0).reshape(2, 3) + step, 'b': jnp.full(3, float(step))}
    average = jax.tree.map(lambda x: x / 2, params) if ema else None
    return TrainState(jnp.int32(step), params, optax.adam(1e-3).init(params), average)


def shapes_of_params() -> Any:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), make_state(0).params)
