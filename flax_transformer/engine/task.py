"""The interface of what the engine trains, and the state that training carries from step to step."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from .devices.sharding import Rules

Params = Any  # a tree of arrays
Batch = Any  # a tree of arrays [rows, ...]
Sums = dict[str, jax.Array]
Share = Callable[[Any], Any]  # an all-gather: [n, ...] of each device become [devices * n, ...], in a tree of arrays


class Task(Protocol):
    """A model with its loss. Inherit from it for the defaults.

    A row of zeros must weigh nothing: the engine pads batches with them.
    """

    rows_per_step: int  # rows of a global batch
    slots_per_row: int = 1  # the unit of parallel.max_tokens_per_device
    slot_name: str = 'slots'  # what reports call them
    row_name: str = 'slots'  # what messages say that a row consists of: '64 source + 64 target slots'
    # Sums that are counts, reported per step. The first, over all devices, divides the loss and is reported per second.
    counts: tuple[str, ...] = ('weight',)
    sharding_rules: Rules = (('.*', PartitionSpec()),)  # every parameter whole on every device
    d_model: int = 1  # the width that scales the noam schedule
    flops_per_step: float = 0.0  # counts the matrix products, over all devices; 0: not counted
    dtype: str = 'float32'  # the matrix products' type

    def flops_per_slot(self) -> dict[str, float]:
        """FLOPs of the forward pass by part of the model, per slot of a row; {} if not counted."""
        return {}

    # A task of one class (`recipe.declare`) has these four, too:

    def prepare(self) -> Any:
        """What is read before training, such as an array of examples. Raises UserError for what the user can fix."""

    def batch(self, prepared: Any, number: int) -> Batch:
        """The global batch of a number, from 0: a pure function of it, so that a run can go on at any step."""

    def validation(self, prepared: Any) -> Iterable[Batch]:
        """The batches of the validation set, the last perhaps with fewer rows; none: nothing is evaluated."""
        return ()

    def rows_per_epoch(self, prepared: Any) -> float | None:
        """The rows of batches in one pass over the data, for reports and training.epochs; None: not counted.

        By default of the array `prepared` or `prepared.train`: [N, ...] has N rows, [N] N / slots_per_row.
        """
        shape = getattr(getattr(prepared, 'train', prepared), 'shape', ())
        if len(shape) == 1:
            return shape[0] / self.slots_per_row
        return shape[0] if shape else None

    # Every task has these:

    def init(self, key: jax.Array) -> Params:
        """Fresh parameters, float32."""

    def loss(self, params: Params, batch: Batch, key: jax.Array | None) -> tuple[jax.Array, Sums]:
        """The loss summed over the batch, and other sums, including those of `counts`; no dropout without a key."""

    # update(params, memory, batch, key, *, learning_rate, share) -> params, memory, sums
    # Optional, instead of gradients and an optimizer: the task updates its parameters itself, such as the few rows of a
    # large table that a batch names. All devices must apply the same update: `share` collects what they computed from
    # their rows. The sums include 'loss'. If an update is not finite, neither may the loss be; parameters and memory
    # stay as they are.
    update: Callable[..., tuple[Params, Any, Sums]] | None = None

    def init_memory(self, params: Params) -> Any:
        """What `update` keeps besides the parameters, such as the sums of AdaGrad."""
        return ()

    def summarize(self, sums: dict[str, float]) -> dict[str, float]:
        """The metrics to report, such as `loss` and perplexity, from the sums of `loss` over many batches."""

    def batch_shapes(self) -> Batch:
        """A global batch as jax.ShapeDtypeStruct, to compile the step without data."""


class TrainState(NamedTuple):
    """Step, parameters, optimizer state and, optionally, the moving average of the parameters."""

    step: jax.Array  # updates done, int32
    params: Any
    opt_state: Any
    ema: Any  # shaped like params, or None

    @property
    def params_to_keep(self) -> Any:
        """The parameters to evaluate and use: the moving average if there is one."""
        return self.params if self.ema is None else self.ema


def init_state(
    init: Callable[[jax.Array], Any], key: jax.Array, tx: Any, *, has_ema: bool = False, params: Any = None
) -> TrainState:
    """The state before the first step, from `params` if given, else from `init(key)`."""
    params = jax.jit(init)(key) if params is None else params  # one jit: starts faster than op by op
    # A copy: the step donates its input, and a buffer cannot be donated twice.
    ema = jax.tree.map(jnp.copy, params) if has_ema else None
    return TrainState(jnp.zeros((), jnp.int32), params, jax.jit(tx.init)(params), ema)


def count_parameters(params: Any) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(params))
