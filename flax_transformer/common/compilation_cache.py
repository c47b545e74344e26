"""A cache of compiled programs in the user's cache folder, shared by all runs."""

import hashlib
import os
import platform
from pathlib import Path

import jax

from .files import user_cache


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
