"""Checksums of a checkpoint's files, kept with it: names every file that was changed, truncated, lost or added."""

import contextlib
import hashlib
import json
import logging
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flax_transformer.common.errors import UserError, first_line
from flax_transformer.common.files import read_limited, sha256_of
from flax_transformer.common.json_text import parse_json, read_json
from flax_transformer.engine.preemption import interrupt_in

MANIFEST = 'manifest.json'
# Orbax writes this one in a thread of its own: its handlers may come after the manifest, the commit time always does.
_STEP_METADATA = '_CHECKPOINT_METADATA'
_COMMITTED = 'commit_success.txt'  # written by Orbax after the manifest; nothing reads it
_ARRAYS = 'd'  # the folders of TensorStore's files; all other files are settings
_MOST_SETTINGS = 256 << 20  # bytes; `_sharding` lists the devices of each array, thousands in a pod
_MAX_SHOWN = 5  # faults listed in a message


def write_manifest(folder: Path) -> None:
    """Writes the name, size and SHA-256 of every file below the folder, before it gets its final name.

    Raises ValueError if Orbax has not merged what the processes have written, since nothing could read the checkpoint.
    """
    for item in folder.glob('*/_METADATA'):  # only items of arrays have one
        if not (item.parent / 'manifest.ocdbt').exists():
            raise ValueError(f'Orbax has not merged the parts of {item.parent}: it could not be read again')
    files = {name: _entry(folder, name) for name in _names(folder) if name != MANIFEST}
    text = json.dumps({'format': 1, 'files': files}, indent=1) + '\n'
    (folder / MANIFEST).write_text(text, encoding='utf-8')


def has_manifest(folder: Path) -> bool:
    """Whether a checkpoint has checksums: those of early versions have none."""
    return os.path.lexists(folder / MANIFEST)


def strange_files(folder: Path) -> list[str]:
    """The files that no checkpoint has, one line each; opens none of them.

    Opening a pipe may wait for ever, a link leads elsewhere, and endless settings do not fit into memory.
    """
    if folder.is_symlink():
        return ['.: a link, which no checkpoint is']
    strange = []
    for name in _names(folder):
        status = os.lstat(folder / name)
        if stat.S_ISLNK(status.st_mode):
            strange.append(f'{name}: a link, which no checkpoint has')
        elif not stat.S_ISREG(status.st_mode):
            strange.append(f'{name}: not a file')
        elif status.st_size > _MOST_SETTINGS and (folder / name).parent.name != _ARRAYS:
            strange.append(f'{name}: has {status.st_size:,} bytes, far too many')
    return strange


def faults(folder: Path, *, is_read: Callable[[str], bool] = lambda name: True) -> list[str]:
    """What is wrong with the files of a checkpoint, one line each; without a manifest, only what no checkpoint has.

    Compares the contents of files whose name satisfies `is_read`, and the sizes of the others. Names in the manifest
    are never opened.
    """
    strange = strange_files(folder)
    if strange or not has_manifest(folder):
        return strange
    try:
        manifest = read_json(folder / MANIFEST)
        known = {str(name): dict(entry) for name, entry in manifest['files'].items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return [f'{MANIFEST}: not a list of checksums']
    there = [name for name in _names(folder) if name not in (MANIFEST, _COMMITTED)]
    damage = [_fault(folder, name, known.get(name), is_read=is_read(name)) for name in there]
    return [line for line in damage if line] + [f'{name}: missing' for name in known if name not in there]


def _fault(folder: Path, name: str, expected: dict[str, Any] | None, *, is_read: bool) -> str:
    if expected is None:
        return f'{name}: not a file of this checkpoint'
    # What has another size need not be read: it may never end.
    is_read = is_read and (folder / name).stat().st_size == expected.get('bytes')
    entry = _entry(folder, name, is_read=is_read)
    if name == _STEP_METADATA and expected == _metadata_entry(folder / name, 'item_handlers'):
        return ''  # the manifest was written before Orbax added the handlers
    if entry['bytes'] != expected.get('bytes'):
        return f'{name}: has {entry["bytes"]} bytes, expected {expected.get("bytes")}'
    if entry.get('sha256') not in (None, expected.get('sha256')):
        return f'{name}: its content has changed'
    return ''


def format_faults(lines: list[str]) -> str:
    more = [f'and {len(lines) - _MAX_SHOWN} more'] if len(lines) > _MAX_SHOWN else []
    return '\n'.join(f'  {line}' for line in lines[:_MAX_SHOWN] + more)


def _names(folder: Path) -> list[str]:
    """The paths of all files below the folder, and of links to anything, relative to it."""
    paths = []
    for path, folders, files in os.walk(folder):  # does not follow links
        links = [name for name in folders if os.path.islink(os.path.join(path, name))]
        paths += [Path(path, name) for name in files + links]
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def _entry(folder: Path, name: str, *, is_read: bool = True) -> dict[str, Any]:
    file = folder / name
    if name == _STEP_METADATA:
        return _metadata_entry(file)
    size = {'bytes': file.stat().st_size}
    return size | {'sha256': sha256_of(file)} if is_read else size


def _metadata_entry(file: Path, *late: str) -> dict[str, Any]:
    """The entry of the file without its commit time and the fields `late`, which Orbax adds after the manifest."""
    content = read_limited(file)
    with contextlib.suppress(ValueError, TypeError):  # damaged: compared as it is
        values = parse_json(content) | dict.fromkeys(('commit_timestamp_nsecs', *late))
        content = json.dumps(values, sort_keys=True).encode()
    return {'bytes': len(content), 'sha256': hashlib.sha256(content).hexdigest()}


@contextlib.contextmanager
def naming_damaged(what: str) -> Iterator[None]:
    """Turns any exception but the system's into a UserError which says that `what` cannot be read.

    Silences Orbax's warnings: a read-only manager is read-only, items have no metadata of their own.
    """
    logger = logging.getLogger('absl')
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    except (UserError, OSError, MemoryError):
        raise
    except Exception as error:  # Orbax may raise anything on a damaged file
        if interrupt := interrupt_in(error):  # Orbax turns an interruption into an error of its own
            raise interrupt from None
        if 'RESOURCE_EXHAUSTED' in str(error):
            raise
        raise UserError(
            f'{what} is damaged, or cannot be read ({type(error).__name__}: {first_line(error)[:200]}); restore it '
            'from a backup, or choose another'
        ) from None
    finally:
        logger.setLevel(level)
