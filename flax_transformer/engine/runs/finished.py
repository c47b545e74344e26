"""Which checkpoints a run has, and whether it is finished; both without JAX."""

import re
import shutil
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import read_limited
from flax_transformer.common.json_text import parse_json
from flax_transformer.engine.config import LoopConfig
from flax_transformer.engine.monitor.progress import EarlyStopping
from flax_transformer.engine.runs.checksums import faults, has_manifest
from flax_transformer.engine.runs.run_directory import RunDirectory

# Next to the checkpoints:
REPLACED = 'replaced_checkpoint'  # one that is saved again waits here until the new one is complete
DELETED = 'deleted_checkpoints'  # those that are not kept are here until their files are removed
DAMAGED = 'damaged_checkpoints'  # training moves those here that it cannot resume from
_STEP = re.compile(r'0|[1-9][0-9]*')


def steps_of(checkpoints: Path) -> list[int]:
    """The steps of the checkpoints, and of one that waits to be replaced; ascending."""
    # The folder is listed twice, since a checkpoint may move either way between two listings.
    return sorted({*_steps_in(checkpoints), *replaced_steps(checkpoints), *_steps_in(checkpoints)})


def folder_of(checkpoints: Path, step: int) -> Path:
    """The folder of a checkpoint."""
    usual, aside = checkpoints / str(step), checkpoints.with_name(REPLACED) / str(step)
    return aside if not usual.is_dir() and aside.is_dir() else usual


def _steps_in(folder: Path) -> set[int]:
    try:
        return {int(each.name) for each in folder.iterdir() if _STEP.fullmatch(each.name) and each.is_dir()}
    except (FileNotFoundError, NotADirectoryError):
        return set()


def set_aside(checkpoint: Path) -> None:
    """Moves a checkpoint to where `settle` finds it."""
    aside = checkpoint.parent.with_name(REPLACED)
    aside.mkdir(exist_ok=True)
    checkpoint.rename(aside / checkpoint.name)


def replaced_steps(checkpoints: Path) -> set[int]:
    """The steps of the checkpoints that were set aside."""
    return _steps_in(checkpoints.with_name(REPLACED))


def settle(checkpoints: Path) -> None:
    """Removes what was deleted and what was set aside; this is put back if no new checkpoint took its name."""
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


def finished(run: RunDirectory, config: LoopConfig) -> str | None:
    """What to say of a run with nothing left to do; None if there is something, or if only a start can tell.

    Only a start can tell for a checkpoint that is damaged, unfinished or of an earlier version. Verifies all of them.
    """
    try:
        folders = list(run.checkpoints.iterdir())
        if not folders or not all(folder.name.isdecimal() and has_manifest(folder) for folder in folders):
            return None
        message = seems_finished(run, config)
        return None if message is None or any(map(faults, folders)) else message
    except (OSError, UserError):
        return None


def seems_finished(run: RunDirectory, config: LoopConfig) -> str | None:
    """As `finished`, but by the newest checkpoint's position alone; verifies nothing."""
    try:
        step = max(_steps_in(run.checkpoints))
        newest = run.checkpoints / str(step)
        progress = parse_json(read_limited(newest / 'position' / 'metadata'))['progress']
        early_stopping = EarlyStopping(config.best_by, config.patience, progress.get('improvement'))
        owes_evaluation = bool(progress.get('evaluate'))
        return nothing_left(run, config, step, early_stopping, owes_evaluation=owes_evaluation)
    except (OSError, UserError, ValueError, TypeError, LookupError, AttributeError):
        return None


def nothing_left(
    run: RunDirectory, config: LoopConfig, step: int, early_stopping: EarlyStopping, *, owes_evaluation: bool
) -> str | None:
    """Says how to continue a run that is done after `step`; None if it is not done."""
    if step >= config.steps and not owes_evaluation:
        return f'{run.path} is trained already, to step {step}; raise --training.{config.length_unit} to go on'
    if early_stopping.is_over:
        return (
            f'{run.path} was stopped early, after step {step}: {early_stopping}; to go on, raise --training.patience '
            f'above {config.patience}, or set it to 0'
        )
    return None
