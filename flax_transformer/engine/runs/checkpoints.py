"""Checkpoints by Orbax: the parameters to use, the rest of the train state, and the position in the data.

Each step's folder holds the items `params`, or `int8` (all that inference loads), `training` (the rest of the state)
and `position` (JSON), and manifest.json, the checksums of their files.
"""

import contextlib
import errno
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import orbax.checkpoint as ocp

from flax_transformer.common.errors import UserError
from flax_transformer.common.quiet import say
from flax_transformer.engine.devices import multihost
from flax_transformer.engine.task import TrainState
from flax_transformer.ops.int8 import to_int8

from .checksums import faults, format_faults, has_manifest, naming_damaged, write_manifest
from .finished import REPLACED, replaced_steps
from .reading import INT8, CheckpointReader, training_part

# Folders next to the checkpoints:
DELETED = 'deleted_checkpoints'  # those that are not kept are here until their files are removed
DAMAGED = 'damaged_checkpoints'  # training moves those here that it cannot resume from

_QUOTA = os.strerror(errno.EDQUOT)


@contextlib.contextmanager
def tolerate_full_disk(applies: bool, say: Callable[[str], None]) -> Iterator[None]:
    """Reports that a checkpoint found no room, instead of raising, if this applies; training tries again later."""
    try:
        yield
    except OSError as error:
        if not applies or error.errno != errno.ENOSPC:
            raise
        problem = error.strerror.partition(': make room')[0]
        say(f'{problem}. Training goes on (training.on_full_disk) and tries again at the next save')


def _human_size(count: int) -> str:
    for unit, name in ((1e9, 'GB'), (1e6, 'MB')):
        if count >= unit:
            return f'{count / unit:,.1f} {name}'
    return f'{count / 1e3:,.1f} kB'


def is_full_disk(error: Exception) -> bool:
    """Whether Orbax failed for lack of room. It wraps system errors, and TensorStore reports only text."""
    return any(text in str(error) for text in ('RESOURCE_EXHAUSTED', 'No space left', _QUOTA))


class Room(NamedTuple):
    size: int  # bytes, in whole blocks
    files: int  # files and folders

    def __str__(self) -> str:
        return f'{_human_size(self.size)} in {self.files} files and folders'


def _room_of(folder: Path) -> Room:
    sizes = []
    with contextlib.suppress(FileNotFoundError):  # Orbax may remove files meanwhile
        sizes += [path.lstat().st_blocks * 512 for path in (folder, *folder.rglob('*'))]
    return Room(sum(sizes), len(sizes))


def no_space_left(step: int, needed: Room, folder: Path, cause: Exception) -> OSError:
    disk = os.statvfs(folder)
    if _QUOTA in str(cause):
        problem = f'{needed}, and the disk quota is exceeded'
    elif disk.f_files and disk.f_favail < needed.files:
        problem = f'{needed.files} files and folders, and the file system has room for {disk.f_favail} (inodes)'
    else:
        free = _human_size(disk.f_bavail * disk.f_frsize)
        problem = f'{needed} of whole blocks ({disk.f_frsize:,} bytes), and {free} are free'
    message = (
        f'no space left for the checkpoint of step {step}: it needs about {problem}; earlier checkpoints are intact: '
        'make room, and the same command goes on from the last one'
    )
    return OSError(errno.ENOSPC, message, str(folder))


class Checkpoints(CheckpointReader):
    """The checkpoints of a run: the newest few, and the best few by a validation score."""

    def __init__(
        self,
        folder: Path,
        *,
        keep_last: int = 2,
        keep_best: int = 1,
        best_by: str = 'loss',
        say: Callable[[str], None] = say,
        compressed: bool = True,
    ) -> None:
        """Removes what an interruption left, moves damaged checkpoints aside and reports them.

        Parameters that are not `compressed` take 8 % more of the disk, and are saved without a copy in memory.
        """
        super().__init__(folder, best_by=best_by, say=say)
        self._saving_step = 0
        self._needed = 0
        multihost.broadcast('damaged checkpoints', self._clean_up() if multihost.is_first() else None)
        managers = ocp.checkpoint_managers
        best = managers.BestN(get_metric_fn=self._rank, n=keep_best, keep_checkpoints_without_metrics=False)
        options = ocp.CheckpointManagerOptions(
            # max_to_keep with best_fn would delete the newest checkpoint whenever its score is poor.
            preservation_policy=managers.AnyPreservationPolicy([managers.LatestN(keep_last), best]),
            best_fn=self._rank,
            best_mode='max',
            todelete_subdir=f'../{DELETED}',
            async_options=ocp.AsyncOptions(post_finalization_callback=self._write_manifest),
        )
        with naming_damaged(f'a checkpoint in {folder}'):
            handlers = None if compressed else {'params': ocp.PyTreeCheckpointHandler(use_compression=False)}
            self._save_args = ocp.args.StandardSave if compressed else ocp.args.PyTreeSave
            self._manager = ocp.CheckpointManager(folder.absolute(), options=options, item_handlers=handlers)

    def save(self, state: TrainState, position: dict[str, Any], metrics: dict[str, float]) -> None:
        """Saves in the background; `metrics` are those of `progress.checkpoint_metrics`, {} if not evaluated.

        A checkpoint of the same step stays until the new one is written.
        """
        args = ocp.args.Composite(
            params=ocp.args.StandardSave(state.params_to_keep),
            training=ocp.args.StandardSave(training_part(state)),
            position=ocp.args.JsonSave(position),
        )
        self.wait()  # so that a failure of the previous save is reported with its own step
        self._saving_step = int(state.step)
        self._needed = sum(leaf.nbytes for leaf in jax.tree.leaves((state.params_to_keep, training_part(state))))
        with self._saving():
            if self._saving_step in self._manager.all_steps():
                if multihost.is_first():
                    set_aside(self.folder / str(self._saving_step))
                multihost.broadcast(f'checkpoint {self._saving_step} is set aside', '')
                self._manager.reload()
            self._manager.save(self._saving_step, args=args, metrics=metrics or None)

    def _write_manifest(self) -> None:
        """Called by Orbax, in its thread, once all files are written but before the checkpoint gets its final name."""
        if multihost.is_first():
            for folder in self.folder.glob(f'{self._saving_step}.orbax-checkpoint-tmp*'):
                write_manifest(folder)

    def _clean_up(self) -> str:
        remove_unfinished(self.folder)
        for step in sorted(replaced_steps(self.folder)):
            new = self.folder / str(step)
            damage = faults(new) if new.exists() and has_manifest(new) else []
            if damage:
                self._move_aside(step, damage)  # what it was to replace is put back
        settle(self.folder)
        damage = {step: faults(self.folder / str(step)) for step in self.steps()}
        damaged = {step: lines for step, lines in damage.items() if lines}
        good = damage.keys() - damaged.keys()
        if damaged and not good:
            which = '\n'.join(f'checkpoint {step}:\n{format_faults(lines)}' for step, lines in damaged.items())
            raise UserError(
                f'every checkpoint in {self.folder} is damaged:\n{which}\n'
                'Restore one from a backup, or delete that folder to train from the beginning'
            )
        for step, lines in damaged.items():
            self._move_aside(step, lines)
            if step > max(good):
                self._say(f'going back to checkpoint {max(good)}')
        return ''

    def _move_aside(self, step: int, damage: list[str]) -> None:
        to = self.folder.with_name(DAMAGED) / str(step)
        to.parent.mkdir(exist_ok=True)
        shutil.rmtree(to, ignore_errors=True)
        (self.folder / str(step)).rename(to)
        self._say(f'checkpoint {step} is damaged and was moved to {to}:\n{format_faults(damage)}')

    def save_params(self, params: Any, *, int8: bool = False) -> None:
        """Saves only parameters, as step 0; with `int8`, matrices in eight bits, which are read back as float32."""
        part, params = (INT8, to_int8(params)) if int8 else ('params', params)
        self._saving_step = 0
        self._needed = sum(leaf.nbytes for leaf in jax.tree.leaves(params))
        with self._saving():
            self._manager.save(0, args=ocp.args.Composite(**{part: self._save_args(params)}))

    def wait(self) -> None:
        with self._saving():
            self._manager.wait_until_finished()
            self._settle()

    def close(self) -> None:
        with self._saving():
            self._manager.close()
            self._settle()

    def _settle(self) -> None:
        if multihost.is_first():
            settle(self.folder)

    @contextlib.contextmanager
    def _saving(self) -> Iterator[None]:
        """Turns Orbax's errors on a full disk, perhaps about an earlier call's save, into one that says so."""
        logger = logging.getLogger('absl')
        level = logger.level
        logger.setLevel(logging.ERROR)  # Orbax warns of a checkpoint without metrics
        try:
            yield
        except (OSError, ValueError, RuntimeError) as error:
            if not is_full_disk(error):
                raise
            # About what is needed: the arrays, uncompressed, or what a checkpoint or the parts of this one take.
            size, files = map(max, zip((self._needed, 0), *map(_room_of, self.folder.iterdir()), strict=True))
            remove_unfinished(self.folder)
            self._settle()
            self._manager.reload()  # or the failed checkpoint would count as one of those to keep
            raise no_space_left(self._saving_step, Room(size, files), self.folder, error) from None
        finally:
            logger.setLevel(level)


def set_aside(checkpoint: Path) -> None:
    """Moves a checkpoint out of the way of a new one of its step, to where `settle` finds it."""
    aside = checkpoint.parent.with_name(REPLACED)
    aside.mkdir(exist_ok=True)
    checkpoint.rename(aside / checkpoint.name)


def settle(checkpoints: Path) -> None:
    """Removes what was deleted and what was set aside; puts the latter back if no new checkpoint took its name."""
    aside = checkpoints.with_name(REPLACED)
    for step in map(str, replaced_steps(checkpoints)):
        if not (checkpoints / step).exists():
            (aside / step).rename(checkpoints / step)
    for folder in (aside, checkpoints.with_name(DELETED)):
        shutil.rmtree(folder, ignore_errors=True)


def remove_unfinished(checkpoints: Path) -> None:
    """Removes what an interrupted save has left. No save may be under way."""
    for folder in checkpoints.glob('*.orbax-checkpoint-tmp*'):
        shutil.rmtree(folder, ignore_errors=True)
