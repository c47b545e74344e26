"""Steps that are not finite: finds the first such number when training stops, and keeps the batch for replay."""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import open_regular, written_whole
from flax_transformer.common.trees import named_leaves

from .devices import multihost
from .task import Batch, TrainState
from .trainer import Trainer


class NotFinite(Exception):
    """Carries the last of too many non-finite steps in a row."""

    def __init__(self, step: int, batch: Batch, state: TrainState) -> None:
        super().__init__(f'step {step} is not finite')
        self.step = step
        self.batch = batch
        self.state = state


def report(trainer: Trainer, folder: Path, failure: NotFinite) -> UserError:
    """The error that names the first tensor that is not finite when the step is computed again.

    Writes the batch to `folder`.
    """
    step = failure.step
    before = failure.state._replace(step=failure.state.step - 1)
    if trainer.task.update is None:
        gradients, sums = trainer.gradients(before, failure.batch)
    else:
        gradients = {}
        sums = trainer.sums(before.params, failure.batch)
    params, gradients = map(trainer.devices.gather, (failure.state.params, gradients))
    part = f'_process_{multihost.number()}' if multihost.count() > 1 else ''  # each process has its own rows
    file = save_batch(folder / f'not_finite_step_{step}{part}.npz', failure.batch)
    return UserError(
        f'step {step}: the loss or its gradients are not finite, too many times in a row '
        f'(training.max_skipped_steps); every such step was skipped, so the parameters are those from before.\n'
        f'  first: {first_non_finite(params, gradients, sums)}\n'
        f'  the batch: {file} (docs/how-to/training.md says how to replay it)\n'
        'A lower learning rate, longer warm-up or clipped gradients (optimizer) in a new --workdir may help; with '
        '--training.max_skipped_steps raised, the same command goes on from the last checkpoint'
    )


def first_non_finite(params: Any, gradients: Any, sums: dict[str, Any]) -> str:
    # The order matters: a NaN loss has NaN gradients.
    for name, tree in {'parameters': params, 'loss': sums, 'gradients': gradients}.items():
        for where, leaf in named_leaves(tree):
            values = np.asarray(leaf, np.float32)
            if not np.isfinite(values).all():
                nan = np.isnan(values).sum()
                infinite = np.isinf(values).sum()
                return f'{name}/{where}: {nan:,} NaN and {infinite:,} infinite of {values.size:,} values'
    if not jax.tree.leaves(gradients):
        return 'none before the step; what it adds overflows'
    largest = max(float(np.abs(np.asarray(leaf, np.float32)).max()) for leaf in jax.tree.leaves(gradients))
    return f'no tensor, but the norm of the gradients is beyond float32: the largest value is {largest:.3g}'


def save_batch(file: Path, batch: Batch) -> Path:
    """Writes the arrays of a batch by the names of their paths; returns the file."""
    with written_whole(file) as opened:
        np.savez_compressed(opened, **dict(named_leaves(batch)))
    return file


def load_batch(file: Path) -> dict[str, np.ndarray]:
    """The arrays that `save_batch` wrote, by name; runs no code from the file."""
    try:
        with open_regular(file) as opened, np.load(opened, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except Exception as error:  # a damaged file can raise anything
        raise UserError(f'{file} is damaged, or no batch ({type(error).__name__}: {error})') from None
