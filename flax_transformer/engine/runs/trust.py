"""The rule about strangers' runs: evaluating one reads nothing of yours.

A file that a run names is read if it is below your data folder, links resolved. Any other must be named by you, unless
the run was trained here or you trust it. Runs trained here are remembered in your state folder by real path and the
SHA-256 of their config, with the folder of the module that declares their task, if that is outside of the package.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import read_limited, sha256_of, write_whole


def check_named_files(
    run: Any,
    data: Any,
    paths: Callable[[Any], Iterable[Path]],
    data_folder: Callable[[str | None], Path],
    *,
    fields: tuple[str, ...] = ('root', 'test'),
    trust: bool,
    remedy: str,
) -> None:
    """Raises UserError if `data` leads to a file outside of the user's data folder that a stranger may have named.

    Args:
      data: the settings of the run's data, with what the user has changed.
      paths: the files that are opened for such settings, by the `fields`, whether or not they exist.
      data_folder: the folder that the field `root` stands for.
      remedy: the options that name other files.
    """
    if trust:
        remember(run.path)
    if trust or is_remembered(run.path):
        return
    named = run.read_config().data
    unchanged = [name for name in fields if getattr(data, name) == getattr(named, name)]
    by_hand = SimpleNamespace(**vars(data) | {name: getattr(type(data)(), name) for name in unchanged})
    folder = os.path.realpath(data_folder(by_hand.root))
    for real in _real(paths(data)):
        if not real.is_relative_to(folder) and real not in _real(paths(by_hand)):
            raise UserError(
                f'{run.path} was not trained here by you, and its config says to read {str(real)!r}. Give '
                f'your own with {remedy}; if you trust where the run comes from, --trust-data, once'
            )


def refuse_stranger(run: Path, *, trust: bool, remedy: str = '') -> None:
    """Raises UserError for a run that names what to read, unless it was trained here, or the user says to trust it."""
    if trust:
        remember(run)
    elif not is_remembered(run):
        raise UserError(
            f'{run} was not trained here by you, and its config says what to read; {remedy}if you trust where the run '
            'comes from: --trust-data, once'
        )


def _real(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        try:
            yield Path(os.path.realpath(path))
        except ValueError:  # a null character, or half a surrogate pair
            raise UserError(f'{str(path)!r}: expected a path') from None


def remember(run: Path, task_folder: Path | None = None) -> None:
    """Notes that the run, with its present config, is this user's; one who has no state folder is asked again.

    `task_folder` is where the module that declares its task is; None: as noted before.
    """
    task_folder = task_folder or remembered_task_folder(run)
    with contextlib.suppress(OSError, RuntimeError, ValueError):  # ValueError: UserError, and half a surrogate pair
        file = _note(run)
        file.parent.mkdir(parents=True, exist_ok=True)
        folder = '' if task_folder is None else f'{task_folder}\n'
        write_whole(file, f'{sha256_of(run / "config.json")}\n{folder}')


def is_remembered(run: Path) -> bool:
    return _remembered(run) is not None


def remembered_task_folder(run: Path) -> Path | None:
    """Where the module that declares the task of this user's run was; None: unknown, or in the package."""
    folder = _remembered(run)
    return Path(folder) if folder else None


def _remembered(run: Path) -> str | None:
    """The task's folder, perhaps '', in the note of a run; None without a note for its config."""
    try:
        digest, _, folder = read_limited(_note(run), 10_000).decode().partition('\n')
        return folder.removesuffix('\n') if digest.strip() == sha256_of(run / 'config.json') else None
    except (OSError, RuntimeError, ValueError):
        return None


def _note(run: Path) -> Path:
    """Where a run is remembered. Raises RuntimeError if there is no home folder."""
    state = os.environ.get('XDG_STATE_HOME') or Path.home() / '.local' / 'state'
    name = hashlib.sha256(os.fsencode(os.path.realpath(run))).hexdigest()
    return Path(state) / 'flax_transformer' / 'runs' / name
