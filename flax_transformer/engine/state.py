"""What training carries from step to step."""

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from flax_transformer.tasks.translation.config import Config
from flax_transformer.transformer.model import Transformer

if TYPE_CHECKING:  # translation reads checkpoints, and need not wait for the optimisers
    import optax


class TrainState(NamedTuple):
    """Step, parameters, optimiser state, and the moving average of the parameters where there is one."""

    step: jax.Array  # updates done, int32
    params: Any
    opt_state: Any
    ema: Any  # as params, or None

    @property
    def params_to_keep(self) -> Any:
        """The parameters to evaluate and to translate with: the average, where there is one."""
        return self.params if self.ema is None else self.ema


def init_params(config: Config, key: jax.Array) -> Any:
    """Fresh parameters, float32 (one jit, so that the start is quick)."""
    model = Transformer(config.model)
    tokens = jnp.zeros((1, 1), jnp.int32)
    return jax.jit(model.init)(key, tokens, tokens)['params']


def init_state(config: Config, tx: 'optax.GradientTransformation', *, params: Any = None) -> TrainState:
    """The state before the first step; parameters depend on the config's seed only, unless they are given."""
    params = init_params(config, jax.random.key(config.seed)) if params is None else params
    # A copy: the step donates its input, and one buffer cannot be given away twice.
    ema = jax.tree.map(jnp.copy, params) if config.optimizer.ema_decay else None
    return TrainState(jnp.zeros((), jnp.int32), params, jax.jit(tx.init)(params), ema)


def count_parameters(params: Any) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(params))
