"""Files by name: relative to the data root, compressed or not, with wildcards, with columns of a table."""

import contextlib
import glob
import os
import re
from collections.abc import Iterator
from pathlib import Path

from flax_transformer.common.errors import UserError

from .lines import SUFFIXES, content_suffix, no_such_file

ROOT_VARIABLE = 'FLAX_TRANSFORMER_DATA'
PATHS_START = f'relative paths start at --data.root, else ${ROOT_VARIABLE}, else data/'  # ends the message about a path
_WILDCARD = re.compile(r'(\*\*/|\*+|\?|\[[^\]]*\])')


def data_root(root: str | None) -> Path:
    """The folder where relative paths start: data.root, else $FLAX_TRANSFORMER_DATA, else data/."""
    return Path(os.path.expanduser(root or os.environ.get(ROOT_VARIABLE) or 'data'))


def matching_files(pattern: str, root: Path) -> list[Path]:
    path = path_below(pattern, root)
    file = existing_file(path)
    if file is not None:
        return [file]
    if not _WILDCARD.search(pattern):
        raise UserError(f'{no_such_file(path)}; {PATHS_START}')
    inside = Path(glob.escape(str(root)), _expanded(pattern))
    files = sorted({Path(file) for file in glob.glob(str(inside), recursive=True) if os.path.isfile(file)})
    if not files:
        raise UserError(f'{path} matches no file; {PATHS_START}')
    return files


def named_paths(pattern: str, root: Path) -> Iterator[Path]:
    """The path itself, then the files that match it: all that a reader may open."""
    yield path_below(pattern, root)
    with contextlib.suppress(UserError):
        yield from matching_files(pattern, root)


def existing_file(path: Path) -> Path | None:
    """The file of a path or, if there is none, the same compressed."""
    files = (Path(f'{path}{suffix}') for suffix in ('', *SUFFIXES))
    return next(filter(Path.is_file, files), None)


def path_below(path: str, root: Path) -> Path:
    return Path(root, _expanded(path))


def _expanded(path: str) -> str:
    return os.path.expanduser(path.strip())


def wildcards(pattern: str, file: Path, root: Path) -> tuple[str, ...]:
    path = path_below(pattern, root)
    if file == existing_file(path):
        return ()
    parts = _WILDCARD.split(str(path))
    any_folders = '((?:.*/)?)'
    shapes = [re.escape(part) for part in parts]
    shapes[1::2] = [any_folders if sign == '**/' else '([^/]*)' for sign in parts[1::2]]
    match = re.fullmatch(''.join(shapes), str(file))
    return match.groups() if match else (str(file),)


def columns_of(name: str) -> tuple[str, tuple[int, int]]:
    """`pairs.tsv#3,1` as its path and its columns."""
    path, sign, columns = name.rpartition('#')
    if not sign or content_suffix(Path(path)) not in ('.tsv', '.csv'):
        return name, (1, 2)
    match = re.fullmatch(r'([1-9]\d*),([1-9]\d*)', columns)
    if not match:
        raise UserError(f'corpus {name!r}: got the columns {columns!r}, expected two numbers, as in pairs.tsv#1,2')
    return path, (int(match[1]), int(match[2]))
