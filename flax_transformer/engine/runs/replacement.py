"""Replaces a checkpoint by another of its step so that a crash at any moment leaves one of the two."""

import shutil
from pathlib import Path

REPLACED = 'replaced_checkpoint'  # next to the checkpoints: where the old one waits until the new one is written


def set_aside(checkpoint: Path) -> None:
    """Moves a checkpoint to where `settle` finds it."""
    aside = checkpoint.parent.with_name(REPLACED)
    aside.mkdir(exist_ok=True)
    checkpoint.rename(aside / checkpoint.name)


def settle(checkpoints: Path) -> None:
    """Removes what was set aside, or puts it back if no new checkpoint took its name: they get theirs once complete."""
    aside = checkpoints.with_name(REPLACED)
    for old in aside.iterdir() if aside.is_dir() else ():
        if not (checkpoints / old.name).exists():
            old.rename(checkpoints / old.name)
    shutil.rmtree(aside, ignore_errors=True)
