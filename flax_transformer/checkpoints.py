"""Checkpoints by Orbax: the train state, the data position, and the parameters to translate with.

Each step's folder holds the items `params` (what translation loads, alone), `training` (the rest of the state) and
`position` (where the data stands, JSON).
"""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp
from absl import logging
from etils import epath

from flax_transformer.errors import UserError
from flax_transformer.train_state import TrainState

BEST_METRIC = 'validation_loss'


class Checkpoints:
    """The checkpoints of a run: the newest few and the best by validation loss."""

    def __init__(self, folder: Path, *, keep_last: int = 2, read_only: bool = False) -> None:
        managers = ocp.checkpoint_managers
        best = {'get_metric_fn': _loss, 'reverse': True, 'n': 1, 'keep_checkpoints_without_metrics': False}
        # max_to_keep with best_fn would delete the newest checkpoint whenever its metric is poor.
        policy = managers.AnyPreservationPolicy([managers.LatestN(keep_last), managers.BestN(**best)])
        options = ocp.CheckpointManagerOptions(
            preservation_policy=policy,
            best_fn=_loss,
            best_mode='min',
            create=not read_only,
            read_only=read_only,
            save_interval_steps=0 if read_only else 1,
            enable_async_checkpointing=not read_only,
        )
        self.folder = folder
        with _without_warnings():
            self._manager = ocp.CheckpointManager(epath.Path(folder.absolute()), options=options)

    def latest(self) -> int | None:
        """The step of the newest checkpoint."""
        return self._manager.latest_step()

    def best(self) -> int | None:
        """The step of the best checkpoint by validation loss; the newest where none was measured."""
        return self._manager.best_step() or self.latest()

    def count(self) -> int:
        """How many checkpoints there are."""
        return len(self._manager.all_steps())

    def save(self, state: TrainState, position: dict[str, Any], metrics: dict[str, float]) -> None:
        """Saves in the background; metrics may hold `validation_loss`."""
        args = ocp.args.Composite(
            params=ocp.args.StandardSave(state.params_to_keep),
            training=ocp.args.StandardSave(_training(state)),
            position=ocp.args.JsonSave(position),
        )
        with self._saving():
            self._manager.save(int(state.step), args=args, metrics=metrics or None)

    def save_params(self, params: Any) -> None:
        """Saves parameters alone, as step 0: enough to translate with and to start another run from."""
        with self._saving():
            self._manager.save(0, args=ocp.args.Composite(params=ocp.args.StandardSave(params)))

    def restore(self, like: TrainState) -> tuple[TrainState, dict[str, Any]]:
        """The newest state, placed as `like` is, and its data position."""
        step = self.latest()
        if not (self.folder / str(step) / 'training').exists():
            raise UserError(
                f'{self.folder.parent} holds parameters alone, no training to go on with; start another run from them: '
                f'--init-from {self.folder.parent} --workdir ANOTHER'
            )
        args = ocp.args.Composite(
            params=ocp.args.StandardRestore(_abstract(like.params_to_keep)),
            training=ocp.args.StandardRestore(_abstract(_training(like))),
            position=ocp.args.JsonRestore(),
        )
        items = self._manager.restore(step, args=args)
        params, training = items['params'], items['training']
        if like.ema is None:
            state = TrainState(training['step'], params, training['opt_state'], None)
        else:
            state = TrainState(training['step'], training['params'], training['opt_state'], params)
        return state, items['position']

    def restore_params(self, like: Any, step: int | None = None) -> tuple[Any, int]:
        """The parameters to translate with, placed as `like` (a tree of shapes) says: of the best step, or the given.

        Raises UserError where there are none.
        """
        steps = sorted(self._manager.all_steps())
        if not steps:
            raise UserError(f'{self.folder} holds no checkpoint yet; train until the first one is saved')
        if step is None:
            step = self.best()
        elif step not in steps:
            raise UserError(f'{self.folder} has no checkpoint of step {step}; there are {", ".join(map(str, steps))}')
        return self._manager.restore(step, args=ocp.args.Composite(params=ocp.args.StandardRestore(like)))[
            'params'
        ], step

    def restore_average(self, like: Any, count: int) -> Any:
        """The mean of the newest `count` checkpoints' parameters, or of all where there are fewer."""
        newest = sorted(self._manager.all_steps())[-count:]
        total, _ = self.restore_params(like, newest[-1] if newest else None)
        for step in newest[:-1]:
            total = jax.tree.map(jnp.add, total, self.restore_params(like, step)[0])
        return jax.tree.map(lambda x: x / len(newest), total)

    def wait(self) -> None:
        """Returns when everything is on disk."""
        with self._saving():
            self._manager.wait_until_finished()

    def close(self) -> None:
        """Waits for what is being saved, and closes."""
        with self._saving():
            self._manager.close()

    @contextlib.contextmanager
    def _saving(self) -> Iterator[None]:
        """Says plainly that the disk is full. The save runs in the background, so that a later call may learn of it."""
        try:
            yield
        except (OSError, ValueError, RuntimeError) as error:
            if 'RESOURCE_EXHAUSTED' not in str(error) and 'No space left' not in str(error):
                raise
            message = (
                'no space left for a checkpoint; those before it are whole: make room, and the same command goes on '
                'from the last of them'
            )
            raise OSError(errno.ENOSPC, message, str(self.folder)) from None


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Orbax warns that a manager is read-only, to whom asked for one."""
    level = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(level)


def _loss(metrics: dict[str, float]) -> float:
    return metrics[BEST_METRIC]


def _training(state: TrainState) -> dict[str, Any]:
    """What beside `params` it takes to go on."""
    rest = {'step': state.step, 'opt_state': state.opt_state}
    return rest if state.ema is None else rest | {'params': state.params}


def _abstract(tree: Any) -> Any:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), tree)
