"""Checkpoints by Orbax: the parameters to use, the rest of the train state, and the place in the data.

Each step's folder holds the items `params` (all that inference loads), `training` (the rest of the state) and
`position` (the place in the data, JSON), and manifest.json, the checksums of their files.
"""

import contextlib
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
from flax_transformer.engine.runs.checksums import faults, format_faults, has_manifest, write_manifest
from flax_transformer.engine.runs.damaged_files import reading
from flax_transformer.engine.runs.full_disk import no_space_left
from flax_transformer.engine.runs.replacement import set_aside, settle
from flax_transformer.engine.state import TrainState

DAMAGED = 'damaged_checkpoints'  # next to the checkpoints: where training moves those it cannot resume from


class Checkpoints:
    """The checkpoints of a run: the newest few, and the best few by a validation score."""

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
        """Unless `read_only`, moves damaged checkpoints aside and reports them.

        Raises UserError if all are damaged, or if one is too damaged to be listed.
        """
        self.folder, self._say = folder, say
        self._saving_step, self._needed = 0, 0
        self._settle = partial(settle, folder) if multihost.is_first() and not read_only else lambda: None
        if not read_only:
            self._settle()
            multihost.share('damaged checkpoints', self._move_damaged_aside() if multihost.is_first() else None)
        managers = ocp.checkpoint_managers
        self._rank = rank = partial(rank_of_checkpoint, score=best_by)
        best = {'get_metric_fn': rank, 'n': keep_best, 'keep_checkpoints_without_metrics': False}
        # max_to_keep with best_fn would delete the newest checkpoint whenever its score is poor.
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
        with _without_warnings(), reading(f'a checkpoint in {folder}'):
            try:
                self._manager = ocp.CheckpointManager(epath.Path(folder.absolute()), options=options)
            except Exception:
                for step in _steps_in(folder):
                    self._check(step)
                raise

    def latest(self) -> int | None:
        """The step of the newest checkpoint."""
        return self._manager.latest_step()

    def best(self) -> int | None:
        """The step of the best checkpoint; of the newest if none was evaluated."""
        return self._manager.best_step() or self.latest()

    def steps(self) -> list[int]:
        """The steps of all checkpoints, newest last."""
        return sorted(self._manager.all_steps())

    def best_steps(self, count: int) -> list[int]:
        """The steps of the best `count` evaluated checkpoints, or of all if they are fewer; in ascending order."""
        ranks = {step: self._rank(self._manager.metrics(step) or {}) for step in self.steps()}
        evaluated = sorted((step for step in ranks if ranks[step] > -math.inf), key=lambda step: (ranks[step], step))
        return sorted(evaluated[-count:])

    def save(self, state: TrainState, position: dict[str, Any], metrics: dict[str, float]) -> None:
        """Saves in the background; `metrics` are those of `early_stopping.checkpoint_metrics`, {} if not evaluated.

        Replaces a checkpoint of the same step, which stays until the new one is written.
        """
        args = ocp.args.Composite(
            params=ocp.args.StandardSave(state.params_to_keep),
            training=ocp.args.StandardSave(_training(state)),
            position=ocp.args.JsonSave(position),
        )
        self.wait()  # so that a failure of the previous save is reported with its own step
        self._saving_step = int(state.step)
        self._needed = sum(leaf.nbytes for leaf in jax.tree.leaves((state.params_to_keep, _training(state))))
        with self._saving():
            if self._saving_step in self._manager.all_steps():
                self._set_aside(self._saving_step)
            self._manager.save(self._saving_step, args=args, metrics=metrics or None)

    def _set_aside(self, step: int) -> None:
        if multihost.is_first():
            set_aside(self.folder / str(step))
        multihost.share(f'checkpoint {step} is set aside', '')
        self._manager.reload()

    def _write_manifest(self) -> None:
        """Called by Orbax, in its thread, once all files are written but before the checkpoint gets its final name."""
        unfinished = f'{self._saving_step}.orbax-checkpoint-tmp*'
        for folder in self.folder.glob(unfinished) if multihost.is_first() else ():
            write_manifest(folder)

    def _move_damaged_aside(self) -> str:
        steps = _steps_in(self.folder)
        found = {step: faults(self.folder / str(step)) for step in steps if has_manifest(self.folder / str(step))}
        damaged = {step: lines for step, lines in found.items() if lines}
        good = [step for step in steps if step not in damaged]
        if damaged and not good:
            which = '\n'.join(f'checkpoint {step}:\n{format_faults(lines)}' for step, lines in damaged.items())
            raise UserError(
                f'every checkpoint in {self.folder} is damaged; there is none to go on from:\n{which}\n'
                'Restore one from a backup, or delete that folder to train from the beginning'
            )
        for step, lines in damaged.items():
            to = self.folder.with_name(DAMAGED) / str(step)
            to.parent.mkdir(exist_ok=True)
            if to.exists():
                shutil.rmtree(to)
            (self.folder / str(step)).rename(to)
            self._say(f'checkpoint {step} is damaged and was moved to {to}:\n{format_faults(lines)}')
            if step > max(good):
                self._say(f'going back to checkpoint {max(good)}')
        return 'moved'

    def _check(self, step: int) -> None:
        """Raises UserError if the checkpoint is damaged; of `training`, which inference does not read, checks sizes."""
        if not self._is_verifiable(step):
            return
        found = faults(self.folder / str(step), is_read=lambda name: not name.startswith('training/'))
        if found:
            others = ', '.join(str(other) for other in _steps_in(self.folder) if other != step) or 'none'
            raise UserError(
                f'checkpoint {step} in {self.folder} is damaged:\n{format_faults(found)}\n'
                f'Restore it from a backup, or choose another with --step: there are {others}'
            )

    def _is_verifiable(self, step: int) -> bool:
        """False, and reported, for a checkpoint without checksums."""
        if has_manifest(self.folder / str(step)):
            return True
        self._say(f'checkpoint {step} was written by an earlier version, without checksums: it cannot be verified')
        return False

    def save_params(self, params: Any) -> None:
        """Saves only parameters, as step 0: enough for inference and to start another run from."""
        self._saving_step, self._needed = 0, sum(leaf.nbytes for leaf in jax.tree.leaves(params))
        with self._saving():
            self._manager.save(0, args=ocp.args.Composite(params=ocp.args.StandardSave(params)))

    def restore(self, like: TrainState) -> tuple[TrainState, dict[str, Any]]:
        """The newest state, and its place in the data; verified when the checkpoints were opened.

        `like` has its shapes, each with a sharding, as jax.ShapeDtypeStruct; arrays would be a second state in memory.

        Raises UserError if the checkpoint holds only parameters.
        """
        step = self.latest()
        if not (self.folder / str(step) / 'training').exists():
            raise UserError(
                f'{self.folder.parent} holds only parameters, no training to go on with; start another run from them: '
                f'--init-from {self.folder.parent} --workdir ANOTHER'
            )
        self._is_verifiable(step)
        args = ocp.args.Composite(
            params=ocp.args.StandardRestore(like.params_to_keep),
            training=ocp.args.StandardRestore(_training(like)),
            position=ocp.args.JsonRestore(),
        )
        with reading(f'checkpoint {step} in {self.folder}'):
            items = self._manager.restore(step, args=args)
        params, training = items['params'], items['training']
        if like.ema is None:
            state = TrainState(training['step'], params, training['opt_state'], None)
        else:
            state = TrainState(training['step'], training['params'], training['opt_state'], params)
        return state, items['position']

    def restore_params(self, like: Any, step: int | None = None) -> tuple[Any, int]:
        """The parameters of a step, the best by default, placed as the shapes in `like` say; and that step.

        Raises UserError if there is no such checkpoint, or if it is damaged.
        """
        steps = self.steps()
        if not steps:
            raise UserError(f'{self.folder} holds no checkpoint yet; train until the first one is saved')
        if step is None:
            step = self.best()
        elif step not in steps:
            raise UserError(f'{self.folder} has no checkpoint of step {step}; there are {", ".join(map(str, steps))}')
        self._check(step)
        # Not left to Orbax: it raises while other reads go on, whose callbacks then find its event loop closed.
        self._refuse_other_shapes(like, step)
        args = ocp.args.Composite(params=ocp.args.StandardRestore(like))
        with reading(f'checkpoint {step} in {self.folder}'):
            return self._manager.restore(step, args=args)['params'], step

    def _refuse_other_shapes(self, like: Any, step: int) -> None:
        """Raises UserError if the checkpoint's parameters do not have the names and shapes of `like`."""
        flat = lambda tree: {path: tuple(leaf.shape) for path, leaf in named_leaves(tree)}
        with reading(f'checkpoint {step} in {self.folder}'), _without_warnings(), ocp.StandardCheckpointer() as reader:
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
        """The mean of the newest `count` checkpoints' parameters, or of all if there are fewer."""
        return self.restore_mean(like, self.steps()[-count:])

    def restore_mean(self, like: Any, steps: Sequence[int]) -> Any:
        """The mean of the parameters of some steps; holds two trees in memory."""
        total, _ = self.restore_params(like, steps[-1] if steps else None)
        for step in steps[:-1]:
            total = jax.tree.map(jnp.add, total, self.restore_params(like, step)[0])
        return jax.tree.map(lambda x: x / len(steps), total)

    def wait(self) -> None:
        """Returns when everything is on disk."""
        with self._saving():
            self._manager.wait_until_finished()
            self._settle()

    def close(self) -> None:
        """Waits for a save under way, then closes."""
        with self._saving():
            self._manager.close()
            self._settle()

    @contextlib.contextmanager
    def _saving(self) -> Iterator[None]:
        """Turns Orbax's errors on a full disk into one that says so. A background save may fail in a later call."""
        try:
            yield
        except (OSError, ValueError, RuntimeError) as error:
            if 'RESOURCE_EXHAUSTED' not in str(error) and 'No space left' not in str(error):
                raise
            for folder in self.folder.glob('*.orbax-checkpoint-tmp*'):
                shutil.rmtree(folder, ignore_errors=True)
            self._settle()
            self._manager.reload()  # or the failed checkpoint would count as one of those to keep
            raise no_space_left(self._saving_step, self._needed, self.folder) from None


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Silences Orbax, which warns that a read-only manager is read-only, and of items without metadata of their own."""
    level = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(level)


def _steps_in(folder: Path) -> list[int]:
    """The steps of the checkpoints in a folder, ascending."""
    return sorted(int(each.name) for each in folder.iterdir() if each.name.isdecimal()) if folder.is_dir() else []


def _training(state: TrainState) -> dict[str, Any]:
    """What it takes to resume, besides `params_to_keep`."""
    rest = {'step': state.step, 'opt_state': state.opt_state}
    return rest if state.ema is None else rest | {'params': state.params}
