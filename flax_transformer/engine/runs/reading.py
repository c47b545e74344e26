"""Reading checkpoints, also while another process trains: it saves, replaces and deletes them meanwhile."""

import contextlib
import functools
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp

from flax_transformer.common.errors import UserError
from flax_transformer.common.json_text import read_json
from flax_transformer.common.quiet import say
from flax_transformer.common.trees import named_leaves, shapes_on_one_device
from flax_transformer.engine.monitor.progress import rank_of_checkpoint
from flax_transformer.engine.task import TrainState
from flax_transformer.ops.int8 import from_int8, shapes_in_int8

from .checksums import faults, format_faults, has_manifest, naming_damaged, strange_files
from .finished import folder_of, steps_of

T = TypeVar('T')
Which = int | str | None  # a step, 'last', or the best
INT8 = 'int8'  # the part of a checkpoint that holds parameters in eight bits, instead of `params`


def _retried(read: Callable[..., T]) -> Callable[..., T]:
    """Reads again where training has changed the checkpoints meanwhile."""

    @functools.wraps(read)
    def retried(self: 'CheckpointReader', *arguments: Any) -> T:
        while True:
            before = self._listing()
            try:
                return read(self, *arguments)
            except Exception:
                if self._listing() == before:
                    raise

    return retried


class CheckpointReader:
    """The checkpoints of a run that exist now; writes nothing."""

    def __init__(self, folder: Path, *, best_by: str = 'loss', say: Callable[[str], None] = say) -> None:
        self.folder = folder
        self._say = say
        self._rank = functools.partial(rank_of_checkpoint, score=best_by)

    def steps(self) -> list[int]:
        return steps_of(self.folder)

    def latest(self) -> int | None:
        return max(self.steps(), default=None)

    def best(self) -> int | None:
        """The step of the best checkpoint; of the newest if none was evaluated."""
        return max(self.best_steps(1), default=self.latest())

    @_retried
    def best_steps(self, count: int) -> list[int]:
        """The steps of the best `count` evaluated checkpoints, or of all if there are fewer, in ascending order."""
        ranked = sorted((self._rank(self.metrics(step)), step) for step in self.steps())
        return sorted([step for rank, step in ranked if rank > -math.inf][-count:])

    def metrics(self, step: int) -> dict[str, float]:
        checkpoint = folder_of(self.folder, step)
        self._refuse(step, strange_files(checkpoint))
        try:
            with naming_damaged(f'checkpoint {step} in {self.folder}'):
                return read_json(checkpoint / 'metrics' / 'metrics')
        except FileNotFoundError:
            if not checkpoint.is_dir():
                raise  # training has just moved it; without the error another would pass for the best
            return {}
        except UserError:
            self._check(step)  # its message names the file
            raise

    @_retried
    def restore(self, like: TrainState) -> tuple[TrainState, dict[str, Any]]:
        """The newest state, and its position in the data.

        `like` has its shapes, each with a sharding, as jax.ShapeDtypeStruct; arrays would be a second state in memory.
        """
        self._require_any()
        step = self.latest()
        checkpoint = folder_of(self.folder, step)
        remedy = f'--init-from {self.folder.parent}@{step} --workdir ANOTHER'
        if not (checkpoint / 'training').exists():
            raise UserError(
                f'{self.folder.parent} holds only parameters, no training to go on with; start another run from them: '
                f'{remedy}'
            )
        self._is_verifiable(step)
        how = f"with another optimizer than this version's (to go on from its parameters, {remedy})"
        self._refuse_other_shapes(training_part(like), step, 'training', how)
        items = _read(
            checkpoint,
            params=ocp.args.StandardRestore(like.params_to_keep),
            training=ocp.args.StandardRestore(training_part(like)),
            position=ocp.args.JsonRestore(),
        )
        training = items['training']
        params = items['params']
        ema = None
        if like.ema is not None:
            ema = params
            params = training['params']
        return TrainState(training['step'], params, training['opt_state'], ema), items['position']

    @_retried
    def restore_params(self, like: Any, which: Which = None) -> tuple[Any, int]:
        """The parameters of a checkpoint, on the devices that the shapes in `like` name; and its step."""
        self._require_any()
        if which is None:
            which = self.best()
        elif which == 'last':
            which = self.latest()
        return self._restore_params(like, which), which

    def _restore_params(self, like: Any, step: int) -> Any:
        steps = self.steps()
        if step not in steps:
            raise UserError(f'{self.folder} has no checkpoint of step {step}; there are {", ".join(map(str, steps))}')
        self._check(step)
        checkpoint = folder_of(self.folder, step)
        part = 'params'
        stored = like
        if (checkpoint / INT8).exists():
            part = INT8
            stored = shapes_on_one_device(shapes_in_int8(like))
        # Orbax would raise while other reads go on, whose callbacks then find its event loop closed.
        self._refuse_other_shapes(stored, step, part, 'by another model than the config describes')
        params = _read(checkpoint, **{part: ocp.args.StandardRestore(stored)})[part]
        if part == INT8:
            # By NumPy, as XLA would compile for each shape; one by one, as the host would hold all of them.
            floats = from_int8(jax.device_get(params), jax.device_put)
            params = jax.device_put(floats, jax.tree.map(lambda x: x.sharding, like))
        return params

    @_retried
    def restore_mean(self, like: Any, choose: Callable[[], Sequence[int]]) -> tuple[Any, Sequence[int]]:
        """The mean of the parameters of the steps that `choose` returns, and these steps; holds two trees in memory."""
        self._require_any()
        steps = choose()
        total = self._restore_params(like, steps[-1])
        for step in steps[:-1]:
            total = jax.tree.map(jnp.add, total, self._restore_params(like, step))
        return jax.tree.map(lambda x: x / len(steps), total), steps

    def _require_any(self) -> None:
        if not self.steps():
            raise UserError(f'{self.folder} holds no checkpoint yet; train until one is saved')

    def _listing(self) -> dict[int, tuple[int, int]]:
        """What identifies each checkpoint: one that is saved again has the same step."""
        identities = {}
        for step in self.steps():
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(folder_of(self.folder, step), follow_symlinks=False)
                identities[step] = (status.st_ino, status.st_ctime_ns)
        return identities

    def _check(self, step: int) -> None:
        """Raises UserError if the checkpoint is damaged; `training`, which inference does not read, only by size."""
        if self._is_verifiable(step):
            self._refuse(step, faults(folder_of(self.folder, step), is_read=_is_for_inference))

    def _refuse(self, step: int, damage: list[str]) -> None:
        if damage:
            others = ', '.join(str(other) for other in self.steps() if other != step) or 'none'
            raise UserError(
                f'checkpoint {step} in {self.folder} is damaged:\n{format_faults(damage)}\n'
                f'Restore it from a backup, or choose another with --step: there are {others}'
            )

    def _is_verifiable(self, step: int) -> bool:
        """False, and reported, for a checkpoint without checksums."""
        is_verifiable = has_manifest(folder_of(self.folder, step))
        if not is_verifiable:
            self._say(
                f'checkpoint {step} in {self.folder} was written by an earlier version, without checksums: it cannot '
                'be verified'
            )
        return is_verifiable

    def _refuse_other_shapes(self, like: Any, step: int, part: str, how: str) -> None:
        checkpoint = folder_of(self.folder, step).absolute()
        with naming_damaged(f'checkpoint {step} in {self.folder}'), ocp.StandardCheckpointer() as reader:
            there = _shapes(reader.metadata(checkpoint / part).item_metadata.tree)
        expected = _shapes(like)
        names = [name for name in sorted(expected | there) if expected.get(name) != there.get(name)]
        if names:
            lines = [f'{name}: {there.get(name, "absent")} there, {expected.get(name, "none")} here' for name in names]
            raise UserError(f'checkpoint {step} in {self.folder} was made {how}:\n{format_faults(lines)}')


def _shapes(tree: Any) -> dict[str, tuple[int, ...]]:
    return {path: tuple(leaf.shape) for path, leaf in named_leaves(tree)}


def _read(checkpoint: Path, **items: Any) -> Any:
    what = f'checkpoint {checkpoint.name} in {checkpoint.parent}'
    with naming_damaged(what), ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as reader:
        return reader.restore(checkpoint.absolute(), args=ocp.args.Composite(**items))


def training_part(state: TrainState) -> dict[str, Any]:
    """What resuming takes besides `params_to_keep`."""
    rest = {'step': state.step, 'opt_state': state.opt_state}
    return rest if state.ema is None else rest | {'params': state.params}


def _is_for_inference(name: str) -> bool:
    return not name.startswith('training/')
