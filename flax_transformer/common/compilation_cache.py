"""A cache of compiled programs in the user's cache folder, shared by all runs.

JAX does not verify what it finds there, and a damaged program may end the process. So checksums are kept with it.
"""

import atexit
import contextlib
import hashlib
import json
import os
import platform
import zlib
from pathlib import Path

import jax

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import read_limited, write_whole
from flax_transformer.common.json_text import parse_json

CHECKSUMS_FILE = 'checksums.json'
_MOST = 1 << 30  # bytes of a program


def cache_folder() -> Path:
    """This machine's cache, below $XDG_CACHE_HOME or ~/.cache.

    Each kind of processor has its own: machines may share a home folder, but not the programs compiled for them.
    """
    root = os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache'
    try:
        lines = Path('/proc/cpuinfo').read_text(encoding='utf-8').splitlines()
    except OSError:
        lines = [platform.processor()]
    kind = next((line for line in lines if line.startswith(('flags', 'Features'))), lines[0] if lines else '')
    digest = hashlib.sha256(kind.encode()).hexdigest()[:8]
    return Path(root) / 'flax_transformer' / f'{platform.machine()}-{digest}'


def use_compilation_cache() -> None:
    """Turns on JAX's compilation cache, if its folder is writable and the user has not configured one.

    JAX_COMPILATION_CACHE_DIR and JAX_ENABLE_COMPILATION_CACHE=false take precedence.
    """
    if jax.config.jax_compilation_cache_dir is not None or not jax.config.jax_enable_compilation_cache:
        return
    try:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return
    if os.access(folder, os.W_OK):
        remove_damaged(folder)
        atexit.register(remove_damaged, folder, only_new=True)  # for the checksums of what this process adds
        jax.config.update('jax_compilation_cache_dir', str(folder))
        jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.1)


def remove_damaged(folder: Path, *, only_new: bool = False) -> None:
    """Removes the programs whose content has changed since they were first seen, and records the others.

    `only_new` reads none that is recorded.
    """
    with contextlib.suppress(OSError):  # another process may clear the folder meanwhile
        known, now = _read_checksums(folder / CHECKSUMS_FILE), {}
        for file in sorted(folder.glob('*-cache')):
            if only_new and file.name in known:
                now[file.name] = known[file.name]
                continue
            try:
                checksum = zlib.crc32(read_limited(file, _MOST))
            except FileNotFoundError:
                continue
            except UserError:  # no program
                checksum = None
            if checksum is None or known.get(file.name, checksum) != checksum:
                with contextlib.suppress(OSError):
                    file.unlink()
            else:
                now[file.name] = checksum
        if now != known:
            write_whole(folder / CHECKSUMS_FILE, json.dumps(now))


def _read_checksums(file: Path) -> dict[str, int]:
    try:
        return dict(parse_json(read_limited(file)))
    except (FileNotFoundError, ValueError, TypeError):  # none yet, or damaged itself: nothing is known
        return {}
