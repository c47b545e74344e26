"""What training carries from step to step."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

if TYPE_CHECKING:  # reading checkpoints should not wait for optax to load
    import optax


class TrainState(NamedTuple):
    """Step, parameters, optimizer state and, optionally, the moving average of the parameters."""

    step: jax.Array  # updates done, int32
    params: Any
    opt_state: Any
    ema: Any  # like params, or None

    @property
    def params_to_keep(self) -> Any:
        """The parameters to evaluate and use: the moving average if there is one."""
        return self.params if self.ema is None else self.ema


def init_state(
    init: Callable[[jax.Array], Any],
    key: jax.Array,
    tx: 'optax.GradientTransformation',
    *,
    has_ema: bool = False,
    params: Any = None,
) -> TrainState:
    """The state before the first step, from `params` if given, else from `init(key)`."""
    params = jax.jit(init)(key) if params is None else params  # one jit: starts faster than op by op
    # A copy: the step donates its input, and a buffer cannot be donated twice.
    ema = jax.tree.map(jnp.copy, params) if has_ema else None
    return TrainState(jnp.zeros((), jnp.int32), params, jax.jit(tx.init)(params), ema)


def count_parameters(params: Any) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(params))
