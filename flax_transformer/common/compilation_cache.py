"""A cache of compiled programs in the user's cache folder, shared by all runs."""

import contextlib
import functools
import hashlib
import os
import pickle  # noqa: TID251
import platform
import zlib
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from .cores import num_cores
from .files import own_partial, user_cache, written_whole


def cache_folder() -> Path:
    """This kind of processor's cache: machines may share a home folder, but not compiled programs."""
    digest = hashlib.sha256(processor_features().encode()).hexdigest()[:8]
    return user_cache() / f'{platform.machine()}-{digest}'


def processor_features() -> str:
    """What Linux says that this processor can do, separated by spaces; elsewhere only its name."""
    try:
        lines = Path('/proc/cpuinfo').read_text(encoding='utf-8').splitlines()
    except OSError:
        lines = [platform.processor()]
    return next((line for line in lines if line.startswith(('flags', 'Features'))), lines[0] if lines else '')


def use_compilation_cache() -> None:
    """Turns on JAX's compilation cache, if its folder is writable and the user has not configured one."""
    if jax.config.jax_compilation_cache_dir is not None or not jax.config.jax_enable_compilation_cache:
        return
    try:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return
    if os.access(folder, os.W_OK):
        jax.config.update('jax_compilation_cache_dir', str(folder))
        jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.1)


def kept_file(kind: str, *depends: Any) -> Path | None:
    """Where to keep, within JAX's cache, what depends only on these values, this code and JAX with its settings.

    None: there is no such folder, or another process would represent a value in another way.
    """
    folder = jax.config.jax_compilation_cache_dir
    values = repr(depends)
    if not folder or '://' in folder or not jax.config.jax_enable_compilation_cache or ' at 0x' in values:
        return None
    try:
        code = _digest_of_code()
    except (OSError, metadata.PackageNotFoundError):  # within an archive
        return None
    flags = [os.environ.get(name) for name in ('XLA_FLAGS', 'LIBTPU_INIT_ARGS')]
    identity = repr((values, jax_settings(), code, flags, _processor()))
    return Path(folder) / f'{kind}-{hashlib.sha256(identity.encode()).hexdigest()}'


def read_kept(file: Path) -> Any:
    """What was kept in this file; None: nothing that can be read.

    A file that a stranger has written can run anything; so can those of JAX in this folder, which are machine code.
    """
    with contextlib.suppress(Exception):  # a damaged file can raise anything
        return pickle.loads(zlib.decompress(file.read_bytes()))
    return None


def keep(file: Path, value: Any) -> None:
    """Writes the file, if its folder can be written to, and the value."""
    failures = OSError, pickle.PicklingError, TypeError, AttributeError
    with contextlib.suppress(*failures), written_whole(file, own_partial(file)) as opened:
        opened.write(zlib.compress(pickle.dumps(value), 1))


def jax_settings() -> tuple[Any, ...]:
    """The settings of JAX that hold in this thread, by which a program may be traced in another way."""
    return tuple(getattr(jax.config, name, value) for name, value in jax.config.values.items())


@functools.cache
def _digest_of_code() -> str:
    versions = ' '.join(metadata.version(name) for name in ('jax', 'jaxlib', 'flax'))
    digest = hashlib.sha256(versions.encode() + Path(__file__).read_bytes())  # raises OSError within an archive
    for file in sorted(Path(__file__).parents[1].rglob('*.py')):
        digest.update(file.read_bytes())
    return digest.hexdigest()


@functools.cache
def _processor() -> tuple[str, int]:
    return processor_features(), num_cores()
