"""Whether a run has nothing left to do, found from its files: without JAX or data, so in a moment."""

from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import read_limited
from flax_transformer.common.json_text import parse_json
from flax_transformer.engine.config import LoopConfig
from flax_transformer.engine.monitor.progress import EarlyStopping
from flax_transformer.engine.runs.checksums import faults, has_manifest
from flax_transformer.engine.runs.run_directory import RunDirectory


def finished(run: RunDirectory, config: LoopConfig) -> str | None:
    """What to say of a run with nothing left to do; None if there is, or where only a start can tell.

    That is so for a checkpoint that is damaged, unfinished or of an earlier version. All are verified, as by a start.
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
    """The same by the newest checkpoint's place alone, without verifying anything."""
    try:
        newest = max((folder for folder in run.checkpoints.iterdir() if folder.name.isdecimal()), key=_step)
        progress = parse_json(read_limited(newest / 'position' / 'metadata'))['progress']
        early_stopping = EarlyStopping(config.best_by, config.patience, progress.get('improvement'))
        owes_evaluation = bool(progress.get('evaluate'))
        return nothing_left(run, config, _step(newest), early_stopping, owes_evaluation=owes_evaluation)
    except (OSError, UserError, ValueError, TypeError, LookupError, AttributeError):
        return None


def _step(folder: Path) -> int:
    return int(folder.name)


def nothing_left(
    run: RunDirectory, config: LoopConfig, step: int, early_stopping: EarlyStopping, *, owes_evaluation: bool
) -> str | None:
    """What would make a run go on that is done after `step`; None if it is not done."""
    if step >= config.steps and not owes_evaluation:
        return f'{run.path} is trained already, to step {step}; raise --training.steps to go on'
    if early_stopping.is_over:
        return (
            f'{run.path} was stopped early, after step {step}: {early_stopping}; to go on, raise --training.patience '
            f'{config.patience}, or set it to 0'
        )
    return None
