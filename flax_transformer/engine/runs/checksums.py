"""Checksums of a checkpoint's files, kept with it: what was flipped, cut, lost or put there is noticed and named."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flax_transformer.common.files import sha256_of

MANIFEST = 'manifest.json'
_STEP_METADATA = '_CHECKPOINT_METADATA'  # Orbax adds the time of the commit to it last of all
_COMMITTED = 'commit_success.txt'  # and writes this one; nothing reads it
_TOLD = 5  # faults that are told of a folder


def write_manifest(folder: Path) -> None:
    """Writes the names, sizes and SHA-256 sums of all files below the folder into its manifest.json.

    It is written before the folder gets its final name: a checkpoint is there with its manifest, or not at all.
    """
    files = {name: _entry(folder, name) for name in _names(folder) if name != MANIFEST}
    text = json.dumps({'format': 1, 'files': files}, indent=1) + '\n'
    (folder / MANIFEST).write_text(text, encoding='utf-8')


def has_manifest(folder: Path) -> bool:
    """Whether the checkpoint has one: those of earlier versions have not."""
    return (folder / MANIFEST).exists()


def faults(folder: Path, *, is_read: Callable[[str], bool] = lambda name: True) -> list[str]:
    """What is wrong with the files of a folder that has a manifest, one line each; nothing: it is as it was written.

    The content of those files is compared for which `is_read` of their name is true; of others the size. Names in the
    manifest are never opened, only compared with those that are there.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding='utf-8'))
        known = {str(name): dict(entry) for name, entry in manifest['files'].items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return [f'{MANIFEST}: not a list of checksums']
    found = []
    there = [name for name in _names(folder) if name not in (MANIFEST, _COMMITTED)]
    for name in there:
        if os.path.islink(folder / name):
            found.append(f'{name}: a link, which no checkpoint has')
        elif name not in known:
            found.append(f'{name}: not a file of this checkpoint')
        else:
            now = _entry(folder, name, is_read(name))
            expected = known[name]
            if now['bytes'] != expected.get('bytes'):
                found.append(f'{name}: has {now["bytes"]} bytes, expected {expected.get("bytes")}')
            elif now.get('sha256') not in (None, expected.get('sha256')):
                found.append(f'{name}: its content has changed')
    found += [f'{name}: missing' for name in known if name not in there]
    return found


def told(found: list[str]) -> str:
    """Faults as lines of a message, the first few."""
    more = [f'and {len(found) - _TOLD} more'] if len(found) > _TOLD else []
    return '\n'.join(f'  {line}' for line in found[:_TOLD] + more)


def _names(folder: Path) -> list[str]:
    """All files below the folder, and links to whatever, relative to it."""
    names = []
    for path, folders, files in os.walk(folder):  # does not follow links
        names += [Path(path, name) for name in files]
        names += [Path(path, name) for name in folders if os.path.islink(os.path.join(path, name))]
    return sorted(path.relative_to(folder).as_posix() for path in names)


def _entry(folder: Path, name: str, is_read: bool = True) -> dict[str, Any]:
    file = folder / name
    if name == _STEP_METADATA:
        content = _without_commit_time(file.read_bytes())
        return {'bytes': len(content), 'sha256': hashlib.sha256(content).hexdigest()}
    size = {'bytes': file.stat().st_size}
    return size | {'sha256': sha256_of(file)} if is_read else size


def _without_commit_time(content: bytes) -> bytes:
    try:
        values = json.loads(content)
        return json.dumps({**values, 'commit_timestamp_nsecs': None}, sort_keys=True).encode()
    except (ValueError, TypeError):
        return content
