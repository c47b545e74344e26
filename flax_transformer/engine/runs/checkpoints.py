"""Checkpoints by Orbax: the train state, the data position, and the parameters to translate with.

Each step's folder holds the items `params` (what translation loads, alone), `training` (the rest of the state) and
`position` (where the data stands, JSON); and manifest.json, the checksums of them all.
"""

import contextlib
import errno
import math
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp
from absl import logging
from etils import epath

from flax_transformer.common.errors import UserError
from flax_transformer.common.trees import named_leaves
from flax_transformer.engine.devices import multihost
from flax_transformer.engine.monitor.early_stopping import rank_of_checkpoint
from flax_transformer.engine.runs.checksums import faults, has_manifest, told, write_manifest
from flax_transformer.engine.runs.full_disk import human_size
from flax_transformer.engine.state import TrainState

DAMAGED = 'damaged_checkpoints'  # beside the checkpoints: where training puts those that it cannot go on from


class Checkpoints:
    """The checkpoints of a run: the newest few and the best few by a score of the validation sets."""

    def __init__(
        self,
        folder: Path,
        *,
        keep_last: int = 2,
        keep_best: int = 1,
        best_by: str = 'loss',
        read_only: bool = False,
        say: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True),
    ) -> None:
        """Unless `read_only`, damaged checkpoints are put aside, saying so.

        Raises UserError where all are damaged, and where a damaged one cannot even be listed.
        """
        self.folder, self._say = folder, say
        self._saving_step, self._needed = 0, 0
        if not read_only:
            multihost.share('damaged checkpoints', self._put_damaged_aside() if multihost.is_first() else None)
        managers = ocp.checkpoint_managers
        self._rank = rank = partial(rank_of_checkpoint, score=best_by)
        best = {'get_metric_fn': rank, 'n': keep_best, 'keep_checkpoints_without_metrics': False}
        # max_to_keep with best_fn would delete the newest checkpoint whenever its metric is poor.
        policy = managers.AnyPreservationPolicy([managers.LatestN(keep_last), managers.BestN(**best)])
        options = ocp.CheckpointManagerOptions(
            preservation_policy=policy,
            best_fn=rank,
            best_mode='max',
            create=not read_only,
            read_only=read_only,
            save_interval_steps=0 if read_only else 1,
            enable_async_checkpointing=not read_only,
            async_options=None if read_only else ocp.AsyncOptions(post_finalization_callback=self._write_manifest),
        )
        with _without_warnings():
            try:
                self._manager = ocp.CheckpointManager(epath.Path(folder.absolute()), options=options)
            except Exception:  # whatever it is that Orbax meets in a damaged file
                for step in _steps_in(folder):
                    self._check(step)
                raise

    def latest(self) -> int | None:
        """The step of the newest checkpoint."""
        return self._manager.latest_step()

    def best(self) -> int | None:
        """The step of the best checkpoint; the newest where none was measured."""
        return self._manager.best_step() or self.latest()

    def steps(self) -> list[int]:
        """The steps of all checkpoints, the newest last."""
        return sorted(self._manager.all_steps())

    def best_steps(self, count: int) -> list[int]:
        """The best so many of those that were measured, or all of these where they are fewer, in the order of steps."""
        ranks = {step: self._rank(self._manager.metrics(step) or {}) for step in self.steps()}
        measured = sorted((step for step in ranks if ranks[step] > -math.inf), key=lambda step: (ranks[step], step))
        return sorted(measured[-count:])

    def save(self, state: TrainState, position: dict[str, Any], metrics: dict[str, float]) -> None:
        """Saves in the background; metrics may hold those that `improvement` knows."""
        args = ocp.args.Composite(
            params=ocp.args.StandardSave(state.params_to_keep),
            training=ocp.args.StandardSave(_training(state)),
            position=ocp.args.JsonSave(position),
        )
        self.wait()  # a failure of the save before is told with its own step
        self._saving_step = int(state.step)
        self._needed = sum(leaf.nbytes for leaf in jax.tree.leaves((state.params_to_keep, _training(state))))
        with self._saving():
            self._manager.save(self._saving_step, args=args, metrics=metrics or None)

    def _write_manifest(self) -> None:
        """Called by Orbax, in its thread, when all files are written and before the checkpoint gets its name."""
        unfinished = f'{self._saving_step}.orbax-checkpoint-tmp*'
        for folder in self.folder.glob(unfinished) if multihost.is_first() else ():
            write_manifest(folder)

    def _put_damaged_aside(self) -> str:
        steps = _steps_in(self.folder)
        found = {step: faults(self.folder / str(step)) for step in steps if has_manifest(self.folder / str(step))}
        damaged = {step: lines for step, lines in found.items() if lines}
        good = [step for step in steps if step not in damaged]
        if damaged and not good:
            which = '\n'.join(f'checkpoint {step}:\n{told(lines)}' for step, lines in damaged.items())
            raise UserError(
                f'every checkpoint in {self.folder} is damaged, there is none to go on from:\n{which}\n'
                'Bring back a copy of one, or delete that folder to train from the beginning'
            )
        for step, lines in damaged.items():
            to = self.folder.with_name(DAMAGED) / str(step)
            to.parent.mkdir(exist_ok=True)
            if to.exists():
                shutil.rmtree(to)
            (self.folder / str(step)).rename(to)
            self._say(f'checkpoint {step} is damaged and was put aside, into {to}:\n{told(lines)}')
            if step > max(good):
                self._say(f'going back to checkpoint {max(good)}')
        return 'are aside'

    def _check(self, step: int) -> None:
        """Raises UserError where the checkpoint is damaged; what translation does not read is not read through."""
        folder = self.folder / str(step)
        if not has_manifest(folder):
            self._say(f'checkpoint {step} has no checksums, as an earlier version wrote it: it cannot be verified')
            return
        found = faults(folder, is_read=lambda name: not name.startswith('training/'))
        if found:
            others = ', '.join(str(other) for other in _steps_in(self.folder) if other != step) or 'none'
            raise UserError(
                f'checkpoint {step} in {self.folder} is damaged:\n{told(found)}\n'
                f'Bring back a copy of it, or choose another with --step: there are {others}'
            )

    def save_params(self, params: Any) -> None:
        """Saves parameters alone, as step 0: enough to translate with and to start another run from."""
        self._saving_step, self._needed = 0, sum(leaf.nbytes for leaf in jax.tree.leaves(params))
        with self._saving():
            self._manager.save(0, args=ocp.args.Composite(params=ocp.args.StandardSave(params)))

    def restore(self, like: TrainState) -> tuple[TrainState, dict[str, Any]]:
        """The newest state, placed as `like` is, and its data position.

        It was verified when the checkpoints were opened. Raises UserError where it cannot be read nevertheless.
        """
        step = self.latest()
        if not (self.folder / str(step) / 'training').exists():
            raise UserError(
                f'{self.folder.parent} holds parameters alone, no training to go on with; start another run from them: '
                f'--init-from {self.folder.parent} --workdir ANOTHER'
            )
        if not has_manifest(self.folder / str(step)):
            self._say(f'checkpoint {step} has no checksums, as an earlier version wrote it: it cannot be verified')
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
        steps = self.steps()
        if not steps:
            raise UserError(f'{self.folder} holds no checkpoint yet; train until the first one is saved')
        if step is None:
            step = self.best()
        elif step not in steps:
            raise UserError(f'{self.folder} has no checkpoint of step {step}; there are {", ".join(map(str, steps))}')
        self._check(step)
        args = ocp.args.Composite(params=ocp.args.StandardRestore(like))
        return self._manager.restore(step, args=args)['params'], step

    def _refuse_other_shapes(self, like: Any, step: int) -> None:
        """Raises UserError where the checkpoint's parameters are not those of `like`."""
        flat = lambda tree: {path: tuple(leaf.shape) for path, leaf in named_leaves(tree)}
        with ocp.StandardCheckpointer() as reader:
            there = flat(reader.metadata(self.folder.absolute() / str(step) / 'params').item_metadata.tree)
        expected = flat(like)
        names = [name for name in sorted(expected | there) if expected.get(name) != there.get(name)]
        if names:
            lines = [
                f'  {name}: {there.get(name, "absent")} there, {expected.get(name, "none")} here' for name in names
            ]
            raise UserError(
                f'checkpoint {step} in {self.folder} was made by another model than the config describes:\n'
                + '\n'.join(lines[:5] + ['  ...'] * (len(lines) > 5))
            )

    def restore_average(self, like: Any, count: int) -> Any:
        """The mean of the newest `count` checkpoints' parameters, or of all where there are fewer."""
        return self.restore_mean(like, self.steps()[-count:])

    def restore_mean(self, like: Any, steps: Sequence[int]) -> Any:
        """The mean of the parameters of some steps; one tree beside the sum is in memory at a time."""
        for step in steps:
            self._refuse_other_shapes(like, step)
        total, _ = self.restore_params(like, steps[-1] if steps else None)
        for step in steps[:-1]:
            total = jax.tree.map(jnp.add, total, self.restore_params(like, step)[0])
        return jax.tree.map(lambda x: x / len(steps), total)

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
            for folder in self.folder.glob('*.orbax-checkpoint-tmp*'):
                shutil.rmtree(folder, ignore_errors=True)
            self._manager.reload()  # or the checkpoint that failed would count as one of those to keep
            free = shutil.disk_usage(self.folder).free
            message = (
                f'no space left for the checkpoint of step {self._saving_step}: it needs up to '
                f'{human_size(self._needed)}, {human_size(free)} are free; those before it are whole: make room, and '
                'the same command goes on from the last of them'
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


def _steps_in(folder: Path) -> list[int]:
    """The steps of the checkpoints in a folder, the last one last."""
    return sorted(int(each.name) for each in folder.iterdir() if each.name.isdigit()) if folder.is_dir() else []


def _training(state: TrainState) -> dict[str, Any]:
    """What beside `params` it takes to go on."""
    rest = {'step': state.step, 'opt_state': state.opt_state}
    return rest if state.ema is None else rest | {'params': state.params}


def _abstract(tree: Any) -> Any:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), tree)
