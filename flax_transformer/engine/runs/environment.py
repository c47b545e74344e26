"""What a start of a run ran on: versions, commit, machine and devices."""

import importlib.metadata
import platform
import subprocess
import time
from pathlib import Path
from typing import Any


def environment(devices: str) -> dict[str, Any]:
    """Versions, commit and machine of this process, with the description of its devices; JSON."""
    names = ('flax-transformer', 'jax', 'flax', 'optax', 'orbax-checkpoint', 'grain', 'sentencepiece', 'numpy')
    versions = {}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return {
        'time': time.strftime('%Y-%m-%dT%H:%M:%S%z'),
        'python': platform.python_version(),
        'machine': platform.platform(),
        'devices': devices,
        'commit': _commit(),
        'versions': versions,
    }


def _commit() -> str | None:
    """The commit of the checkout that this package runs from; None if it was installed."""
    package = Path(__file__).parents[2]
    if not (package.parent / '.git').exists():
        return None
    try:
        command = ['git', '-C', str(package), 'describe', '--always', '--dirty', '--abbrev=12']
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
