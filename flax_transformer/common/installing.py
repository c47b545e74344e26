"""The commands that install what is missing, as they work from where they are read."""

import importlib
import importlib.metadata
import re
import shlex
from pathlib import Path
from typing import Any

from .errors import UserError

PACKAGE = 'flax-transformer'


def install_command(extra: str) -> str:
    """The command that installs an extra of this package, such as `pip install -e '.[plots]'` in a clone.

    Elsewhere it names the packages of the extra, as this one is on no index.
    """
    clone = Path(__file__).resolve().parents[2]
    if (clone / 'pyproject.toml').is_file():
        return pip_install('-e', f'.[{extra}]' if clone == Path.cwd() else f'{clone}[{extra}]')
    marker = re.compile(rf'; *extra *== *["\']{re.escape(extra)}["\']')
    required = importlib.metadata.requires(PACKAGE) or []
    return pip_install(*[marker.sub('', line).strip() for line in required if marker.search(line)])


def imported(module: str, extra: str, what: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UserError(f'{what} needs the package {module}: {install_command(extra)}') from None


def pip_install(*what: str) -> str:
    return f'pip install {shlex.join(what)}'
