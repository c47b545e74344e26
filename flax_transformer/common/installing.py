"""The commands that install what is missing, as they work from where they are read."""

import importlib.metadata
import json
import re
import shlex
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

PACKAGE = 'flax-transformer'


def install_command(extra: str) -> str:
    """The command that installs an extra of this package, such as `pip install '.[plots]'` in a clone of it.

    The package is on no index: it is installed again from where it came from (PEP 610). Where that is unknown or gone,
    the command names the packages of the extra.
    """
    try:
        installed = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:  # its folder is on the path
        clone = Path(__file__).resolve().parents[2]
        return pip_install(_folder(clone, extra)) if (clone / 'pyproject.toml').is_file() else pip_install(PACKAGE)
    try:
        origin = json.loads(installed.read_text('direct_url.json') or '{}')
    except ValueError:
        origin = {}
    url = origin.get('url', '')
    path = Path(url2pathname(urlparse(url).path)) if url.startswith('file:') else None
    if 'dir_info' in origin and path is not None and (path / 'pyproject.toml').is_file():
        is_editable = origin['dir_info'].get('editable', False)
        return pip_install(*['-e'] * is_editable, _folder(path, extra))
    if 'vcs_info' in origin:
        revision = origin['vcs_info'].get('commit_id', '')
        return pip_install(f'{PACKAGE}[{extra}] @ {origin["vcs_info"]["vcs"]}+{url}@{revision}')
    if url and (path is None or path.is_file()):
        return pip_install(f'{PACKAGE}[{extra}] @ {url}')
    return pip_install(*_packages(installed.requires or [], extra))


def pip_install(*what: str) -> str:
    """The command for given packages or options, quoted for a shell."""
    return f'pip install {shlex.join(what)}'


def _folder(clone: Path, extra: str) -> str:
    return f'.[{extra}]' if clone == Path.cwd() else f'{clone}[{extra}]'


def _packages(requirements: list[str], extra: str) -> list[str]:
    """The requirements of an extra, without the marker that makes them so."""
    marker = re.compile(rf'; *extra *== *["\']{re.escape(extra)}["\']')
    return [marker.sub('', line).strip() for line in requirements if marker.search(line)] or [PACKAGE]
