"""What the engine trains, and the batches that it reads."""

from collections.abc import Callable
from typing import Any, Protocol

import grain
import jax
from jax.sharding import PartitionSpec

from flax_transformer.engine.devices.sharding import Rules

Params = Any  # a tree of arrays
Batch = Any  # a tree of arrays [rows, ...]
Sums = dict[str, jax.Array]
Share = Callable[[Any], Any]  # a tree of arrays [n, ...], one after another from all devices: [devices * n, ...]


class Task(Protocol):
    """A model with its loss. Inherit from it for the defaults.

    A batch is a tree of arrays [rows, ...]. A row of zeros must weigh nothing: the engine pads with them.
    """

    rows_per_step: int  # rows of a global batch
    slots_per_row: int = 1  # per row, in the unit of parallel.max_tokens_per_device
    slot_name: str = 'slots'  # in reports
    row_name: str = 'slots'  # what a row consists of, for messages: '64 source + 64 target slots'
    # Sums that are counts, reported per step. The first, over all devices, divides the loss; it is also reported per
    # second.
    counts: tuple[str, ...] = ('weight',)
    sharding_rules: Rules = (('.*', PartitionSpec()),)  # every parameter whole on every device
    d_model: int = 1  # the width that scales the noam schedule
    flops_per_step: float = 0.0  # of the matrix products, over all devices; 0: not counted
    dtype: str = 'float32'  # of the matrix products

    def flops_per_slot(self) -> dict[str, float]:
        """FLOPs of the forward pass by part of the model, per slot of a row; {} if not counted."""
        return {}

    def init(self, key: jax.Array) -> Params:
        """Fresh parameters, float32."""

    def loss(self, params: Params, batch: Batch, key: jax.Array | None) -> tuple[jax.Array, Sums]:
        """The loss summed over the batch, and other sums, including those of `counts`; no dropout without a key.

        With a key, 'statistics' among the sums may be a tree of sums for `absorb`; they are not reported.
        """

    def absorb(self, params: Params, statistics: Any) -> Params:
        """The parameters after the optimizer's update, with what has no gradient but follows the data, such as the
        running statistics of batch norm: from the 'statistics' of the loss, over all devices and passes of the step."""
        return params

    # Optional, in place of gradients and an optimizer: the task's own update of its parameters, such as of the few rows
    # of a large table that a batch names. All devices hold the same parameters and must apply the same to them:
    # `share` collects what they computed from their rows of the batch. The sums include the loss as 'loss'. An update
    # that is not finite must leave parameters and memory as they are; then the loss must not be finite either.
    #
    #     def update(self, params, memory, batch, key, *, learning_rate, share) -> tuple[Params, Any, Sums]
    update: Callable[..., tuple[Params, Any, Sums]] | None = None

    def init_memory(self, params: Params) -> Any:
        """What `update` keeps besides the parameters, such as the sums of AdaGrad; a tree of arrays."""
        return ()

    def summarize(self, sums: dict[str, float]) -> dict[str, float]:
        """The metrics to report, from sums over many batches: `loss` and others, such as perplexity or accuracy.

        `sums` holds those that `loss` returns, and the loss itself as 'loss'.
        """

    def batch_shapes(self) -> Batch:
        """A global batch as jax.ShapeDtypeStruct, to compile the step without data."""


class NumberedBatches(grain.IterDataset):
    """Endless batches that are made from their numbers: resuming needs only the number of the next one.

    A subclass has `batch`, this process's rows of a global batch, and the identity of its data: `name` for messages,
    and `fingerprint`, a hash of all examples and their order.
    """

    name: str
    fingerprint: str

    def batch(self, number: int) -> Batch:
        """This process's rows of a global batch."""
        raise NotImplementedError

    def describe(self, place: Any) -> dict[str, Any]:
        """Names the examples of the batch at a place; JSON."""
        return dict(place)

    def epoch(self, place: Any) -> float | None:
        """Passes over the data before a place; None: not counted."""
        return None

    def __iter__(self) -> 'NumberedIterator':
        return NumberedIterator(self)


class NumberedIterator(grain.DatasetIterator):
    """Reads on from a place, the number of the next batch."""

    def __init__(self, batches: NumberedBatches) -> None:
        super().__init__()
        self._batches, self._next = batches, 0

    def __next__(self) -> Batch:
        self._next += 1
        return self._batches.batch(self._next - 1)

    def get_state(self) -> dict[str, int]:
        return {'batch': self._next}

    def set_state(self, state: dict[str, int]) -> None:
        self._next = int(state['batch'])
