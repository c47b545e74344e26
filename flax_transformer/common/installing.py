"""The commands that install what is missing, as they work from where they are read."""

import importlib.metadata
import re
import shlex
from pathlib import Path

PACKAGE = 'flax-transformer'


def install_command(extra: str) -> str:
    """The command that installs an extra of this package, such as `pip install -e '.[plots]'` in a clone of it.

    The package is on no index: outside of a clone, the command names the packages of the extra.
    """
    clone = Path(__file__).resolve().parents[2]
    if (clone / 'pyproject.toml').is_file():
        return pip_install('-e', f'.[{extra}]' if clone == Path.cwd() else f'{clone}[{extra}]')
    marker = re.compile(rf'; *extra *== *["\']{re.escape(extra)}["\']')
    required = importlib.metadata.requires(PACKAGE) or []
    return pip_install(*[marker.sub('', line).strip() for line in required if marker.search(line)])


def pip_install(*what: str) -> str:
    """The command for given packages or options, quoted for a shell."""
    return f'pip install {shlex.join(what)}'
