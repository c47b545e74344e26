"""What the engine asks of what it trains."""

from typing import Any, Protocol

import jax
from jax.sharding import PartitionSpec

from flax_transformer.engine.devices.sharding import Rules

Params = Any  # a tree of arrays
Batch = Any  # a tree of arrays [rows, ...]
Sums = dict[str, jax.Array]


class Task(Protocol):
    """A model with its loss. Inherit from it for the defaults.

    A batch is a tree of arrays [rows, ...]. A row of zeros must weigh nothing: the engine fills up with them.
    """

    rows_per_step: int  # rows of a global batch
    slots_per_row: int = 1  # what parallel.max_tokens_per_device counts, for each row
    slot_name: str = 'slots'  # in reports
    row_name: str = 'slots'  # what a row consists of, for people: '64 source + 64 target slots'
    # Sums that count what passes by, reported per step. The first is what the loss is divided by, once, over all
    # devices; it is also reported per second.
    counts: tuple[str, ...] = ('weight',)
    sharding_rules: Rules = (('.*', PartitionSpec()),)  # every parameter whole on every device
    d_model: int = 1  # width that the noam schedule scales with
    flops_per_step: float = 0.0  # of the matrix products, over all devices; 0: not counted
    dtype: str = 'float32'  # of the matrix products

    def flops_per_slot(self) -> dict[str, float]:
        """FLOPs of the forward pass by part of the model, per slot of a row; {} if not counted."""
        return {}

    def init(self, key: jax.Array) -> Params:
        """Fresh parameters, float32."""

    def loss(self, params: Params, batch: Batch, key: jax.Array | None) -> tuple[jax.Array, Sums]:
        """The loss summed over the batch, and other sums, those of `counts` among them; without a key no dropout."""

    def summarize(self, sums: dict[str, float]) -> dict[str, float]:
        """What a person reads of sums over many batches: `loss` and whatever else, such as perplexity or accuracy.

        `sums` holds those of `loss` and the loss itself, as 'loss'.
        """

    def batch_shapes(self) -> Batch:
        """A global batch as jax.ShapeDtypeStruct, to compile the step before there is data."""
