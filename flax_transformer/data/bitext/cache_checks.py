"""Whether the arrays of a cache are as they were written: checksums, ids within the vocabulary, ascending offsets."""

import contextlib
import hashlib
import json
import os
import socket
import time
import zlib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from flax_transformer.common.files import own_partial, partials_of, read_limited, sha256_of, written_whole
from flax_transformer.common.json_text import parse_json

BLOCK = 1 << 22  # bytes; each block of a file has a checksum, so that all cores check a large file
_BEGAN = time.time()  # this process, or soon after
_LASTS = 3600.0  # seconds for which a check by another process counts; a notebook may have begun days ago


class DamagedCache(ValueError):
    """What is wrong with a cache, in words."""


def checksums(folder: Path, names: Iterable[str]) -> dict[str, list[int]]:
    """The CRC-32 of each BLOCK of each file: the fastest checksum of Python's library."""
    found: dict[str, list[int]] = {name: [] for name in names}
    blocks = [(name, at) for name in found for at in range(0, (folder / name).stat().st_size, BLOCK)]
    with _threads() as threads:
        contents = threads.map(lambda block: zlib.crc32(_read(folder / block[0], block[1], BLOCK)), blocks)
        for (name, _), checksum in zip(blocks, contents, strict=True):
            found[name].append(checksum)
    return found


def fingerprint(digests: Mapping[str, str]) -> str:
    """A hash of all arrays from the SHA-256 of each."""
    named = [f'{name} {digest}' for name, digest in sorted(digests.items())]
    return hashlib.sha256('\n'.join(named).encode()).hexdigest()


def checked(folder: Path, meta: dict[str, Any], dtypes: Mapping[str, np.dtype], vocab_size: int) -> dict[str, Any]:
    """The meta.json of a folder whose arrays are sound. Raises DamagedCache.

    Reads every byte, unless another process of this host has done so since this one began and within an hour: of the
    processes that train together one checks. A folder without checksums is checked by its fingerprint, and gets some.

    Args:
      dtypes: of the arrays of ids, by name.
    """
    if _is_checked_by_another(folder):
        return meta
    if 'checksums' not in meta:
        with _threads() as threads:
            digests = threads.map(sha256_of, [folder / name for name in meta['sizes']])
            if fingerprint(dict(zip(meta['sizes'], digests, strict=True))) != meta['fingerprint']:
                raise DamagedCache('its arrays are not those that were written')
        meta = {**meta, 'checksums': checksums(folder, meta['sizes'])}
    blocks = [(name, at) for name, size in meta['sizes'].items() for at in range(0, size, BLOCK)]
    with _threads() as threads:
        faults = threads.map(partial(_fault_in, folder, meta['checksums'], dtypes, vocab_size), blocks)
        if fault := next(filter(None, faults), None):
            threads.shutdown(cancel_futures=True)
            raise DamagedCache(fault)
    _write_stamp(_stamp(folder))
    return meta


def _fault_in(
    folder: Path,
    known: dict[str, list[int]],
    dtypes: Mapping[str, np.dtype],
    vocab_size: int,
    block: tuple[str, int],
) -> str | None:
    """What is wrong with a block, in words."""
    name, at = block
    content = memoryview(_read(folder / name, at, BLOCK + 8))  # with the first offset of the next block
    if zlib.crc32(content[:BLOCK]) != known[name][at // BLOCK]:
        return f'{name} is not what was written, between byte {at:,} and byte {at + BLOCK:,}'
    if name in dtypes and (most := int(np.frombuffer(content[:BLOCK], dtypes[name]).max())) >= vocab_size:
        return f'{name} has the id {most}; expected less than the size of the vocabulary, {vocab_size}'
    if name.endswith('offsets') and (np.diff(np.frombuffer(content, np.int64)) < 0).any():
        return f'{name} descends between byte {at:,} and byte {at + BLOCK:,}; expected ascending offsets'
    return None


def _read(file: Path, at: int, count: int) -> bytes:
    # Not from the map: its pages would count as this process's memory.
    with file.open('rb', buffering=0) as opened:
        return os.pread(opened.fileno(), count, at)


def _is_checked_by_another(folder: Path) -> bool:
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        stamp, now = parse_json(read_limited(_stamp(folder), 1000)), time.time()
        return stamp['process'] != os.getpid() and max(_BEGAN, now - _LASTS) < stamp['time'] <= now
    return False


def _stamp(folder: Path) -> Path:
    """Says when a process of this host last found no fault."""
    return folder / f'checked.{socket.gethostname()}'


def _write_stamp(file: Path) -> None:
    """Writes what it can, and removes what processes that were killed here have left."""
    with contextlib.suppress(OSError):  # read-only; or another process has removed our part, and writes its own
        with written_whole(file, own_partial(file)) as opened:
            opened.write(json.dumps({'process': os.getpid(), 'time': time.time()}).encode())
        for left in partials_of(file):
            left.unlink(missing_ok=True)


def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(os.cpu_count() or 1, 16), thread_name_prefix='checksums')  # each holds a block
