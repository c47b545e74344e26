"""Where checkpoints are, so that a kill at any moment leaves each of them whole or gone.

Orbax writes a checkpoint under another name and renames it when it is complete. It is deleted the other way round:
renamed first, then removed. One that is saved again waits elsewhere until the new one is complete.
"""

import re
import shutil
from pathlib import Path

# Next to the checkpoints:
REPLACED = 'replaced_checkpoint'  # one that is saved again waits here until the new one is complete
DELETED = 'deleted_checkpoints'  # those that are not kept are here until their files are removed
DAMAGED = 'damaged_checkpoints'  # where training moves those that it cannot resume from
_STEP = re.compile(r'0|[1-9][0-9]*')


def steps_of(checkpoints: Path) -> list[int]:
    """The steps of the checkpoints, and of one that waits to be replaced; ascending."""
    aside = checkpoints.with_name(REPLACED)
    # One may move from the first to the second, or from the second to the first, between two looks.
    return sorted({*_steps_in(checkpoints), *_steps_in(aside), *_steps_in(checkpoints)})


def place_of(checkpoints: Path, step: int) -> Path:
    """The folder of a checkpoint."""
    places = [checkpoints / str(step), checkpoints.with_name(REPLACED) / str(step)]
    return next((place for place in (*places, places[0]) if place.is_dir()), places[0])


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
