"""Which checkpoints a run has, and whether it is finished: questions that need no JAX and change nothing."""

import re
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.common.json_text import read_json
from flax_transformer.engine.config import LoopConfig
from flax_transformer.engine.monitor.progress import EarlyStopping

from .checksums import faults, has_manifest
from .run_directory import RunDirectory

# The folder next to the checkpoints in which one that is saved again waits until the new one is complete.
REPLACED = 'replaced_checkpoint'
_STEP = re.compile(r'0|[1-9][0-9]*')


def steps_of(checkpoints: Path) -> list[int]:
    """The steps of the checkpoints, and of one that waits to be replaced; ascending."""
    # Listed twice: a checkpoint may move either way between two listings.
    return sorted({*_steps_in(checkpoints), *replaced_steps(checkpoints), *_steps_in(checkpoints)})


def folder_of(checkpoints: Path, step: int) -> Path:
    usual = checkpoints / str(step)
    aside = checkpoints.with_name(REPLACED) / str(step)
    return aside if aside.is_dir() and not usual.is_dir() else usual


def _steps_in(folder: Path) -> set[int]:
    try:
        return {int(entry.name) for entry in folder.iterdir() if _STEP.fullmatch(entry.name) and entry.is_dir()}
    except (FileNotFoundError, NotADirectoryError):
        return set()


def replaced_steps(checkpoints: Path) -> set[int]:
    return _steps_in(checkpoints.with_name(REPLACED))


def finished(run: RunDirectory, config: LoopConfig) -> str | None:
    """The message about a run with nothing left to do; None if something is left, or if only a start can tell.

    Only a start can tell where a checkpoint is damaged, unfinished or of an earlier version.
    """
    try:
        message = seems_finished(run, config)
        if message is None or run.unfinished.exists():
            return None
        for folder in run.checkpoints.iterdir():
            if not folder.name.isdecimal() or not has_manifest(folder) or faults(folder):
                return None
        return message
    except (OSError, UserError):
        return None


def seems_finished(run: RunDirectory, config: LoopConfig) -> str | None:
    """The message of `finished`, by the newest checkpoint's position alone; verifies nothing."""
    try:
        step = max(_steps_in(run.checkpoints))
        newest = run.checkpoints / str(step)
        progress = read_json(newest / 'position' / 'metadata')['progress']
        early_stopping = EarlyStopping(config.best_by, config.patience, progress.get('improvement'))
        owes_evaluation = bool(progress.get('evaluate'))
        return nothing_left(run, config, step, early_stopping, owes_evaluation=owes_evaluation)
    except (OSError, UserError, ValueError, TypeError, LookupError, AttributeError):
        return None


def nothing_left(
    run: RunDirectory, config: LoopConfig, step: int, early_stopping: EarlyStopping, *, owes_evaluation: bool
) -> str | None:
    """The message about a run that is done after `step`, with how to go on; None if it is not done."""
    if step >= config.steps and not owes_evaluation:
        return f'{run.path} is trained already, to step {step}; raise --training.{config.length_unit} to go on'
    if early_stopping.is_over:
        return (
            f'{run.path} was stopped early, after step {step}: {early_stopping}; to go on, raise --training.patience '
            f'above {config.patience}, or set it to 0'
        )
    return None
