"""A run directory: a trained model complete in one folder, which can be moved.

docs/reference/run_directory.md lists its files. A task adds whatever its model needs besides parameters, such as a
tokenizer.
"""

import contextlib
import functools
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import time
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from flax_transformer.common.config_json import from_json, refused_fields, to_json
from flax_transformer.common.errors import UserError, nearest
from flax_transformer.common.files import LOCK_FILE, naming_damage, read_limited, user_cache, write_whole
from flax_transformer.common.json_text import read_json
from flax_transformer.common.quiet import say

from .task_module import Home, home_of
from .trust import remember

CONFIG_FILE = 'config.json'
UNFINISHED = 'unfinished'  # there until training, and what follows its last step, has come to its end
ORIGIN_FILE = 'origin.json'  # name, revision and license of an imported model on Hugging Face's hub
CHECKPOINTS = ('last', 'best', 'average')  # the names after @; other checkpoints go by their step
HUB_NAME = re.compile(r'([\w.-]+/[\w.-]+)(?:@([\w./-]+))?')  # OWNER/NAME[@REVISION]
_PACKAGE = Path(__file__).parents[2]
_UNSAVABLE = re.compile(r'[*?\[\\\ud800-\udfff]|:(?=/|$)')  # lone surrogates stand for bytes that are not UTF-8
C = TypeVar('C')  # the config of the run's task


class LoadedRun(NamedTuple):
    """A trained run; that of a task has what else its model needs."""

    config: Any
    params: Any


class RunDirectory(Generic[C]):
    """The files of a run, except its checkpoints; a task's subclass knows its config, its model and its own files."""

    config_class: ClassVar[type]
    model_files: ClassVar[tuple[str, ...]] = ()  # files and folders the model needs besides its parameters
    # What to type when training is over, {} being the run, as in 'classify {} < lines > labels'; and what `evaluate`
    # needs where the config names no test set, {0} being its section data.
    use: ClassVar[str] = ''
    evaluate_on: ClassVar[str] = ''
    leftovers: ClassVar[tuple[str, ...]] = (LOCK_FILE,)  # what an interrupted first start may leave

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @staticmethod
    def init_params(config: C, key: Any) -> Any:
        raise NotImplementedError

    def loaded(self, config: C, params: Any, scores: list[dict[str, Any]]) -> Any:
        return LoadedRun(config, params)

    @property
    def config_file(self) -> Path:
        return self.path / CONFIG_FILE

    @property
    def unfinished(self) -> Path:
        return self.path / UNFINISHED

    @property
    def checkpoints(self) -> Path:
        return self.path / 'checkpoints'

    def exists(self) -> bool:
        return self.config_file.is_file()

    def read_config(self) -> C:
        text = read_config_text(self.path)
        try:
            return from_json(text, self.config_class)
        except ValueError as error:
            raise UserError(f'{self.config_file}: {error}') from None

    def write_config(self, config: Any) -> Home | None:
        """Writes config.json; returns where the config's task is declared."""
        home = home_of(type(config))
        text = to_json(config, module=home and home.module)
        write_whole(self.config_file, text)
        return home

    def _is_empty(self) -> bool:
        if not self.path.is_dir():
            return not self.path.exists()
        return all(file.suffix == '.partial' or file.name in self.leftovers for file in self.path.iterdir())

    def check(self, config: Any) -> None:
        """Raises UserError if this config cannot start or resume a run here; writes nothing."""
        self._check_path()
        is_new = not self.exists()
        if is_new and not self._is_empty():
            raise UserError(f'{self.path} exists and is not a run directory; give another --workdir, or empty it')
        if file := self.link_out():  # training must not write where a stranger's run leads
            raise UserError(
                f'{file} is a link to {os.readlink(file)}, and training would write there; move the run (--workdir)'
            )
        refused = '' if is_new else refused_fields(self.read_config(), config, 'resumable')
        if refused:
            raise UserError(
                f'{self.path} holds a run of another config:\n{refused}\n'
                'Give another --workdir, or use the values there'
            )

    def _check_path(self) -> None:
        """Raises UserError for a path under which Orbax saves checkpoints that cannot be read.

        It merges a checkpoint's parts by a glob of the whole path. `gs:` and the like name other file systems.
        """
        path = str(self.path.absolute())
        if fault := _UNSAVABLE.search(path):
            raise UserError(
                f'{path!r}: checkpoints cannot be saved below a folder with {fault[0]!r} in its name; expected a path '
                'in UTF-8 without * ? [ \\ and without a colon at the end of a name'
            )

    def link_out(self, name: str = '') -> Path | None:
        """The first link, at or below a name in the directory, that leads out of it."""
        start = self.path / name
        inside = self.path.resolve()
        below = (Path(folder, entry) for folder, *names in os.walk(start) for entry in chain(*names))
        for file in chain([start] if name else [], below):
            # Path.resolve raises for a link to itself.
            if file.is_symlink() and not Path(os.path.realpath(file)).is_relative_to(inside):
                return file
        return None

    def open(self, config: Any) -> None:
        """Creates the directory, or finds this config's run there; writes the config and remembers the run as ours."""
        self.check(config)
        self.path.mkdir(parents=True, exist_ok=True)
        self.write_and_remember(config)

    def write_and_remember(self, config: Any) -> None:
        """Writes the config of a run that is trained here, and notes that the run is ours with it."""
        home = self.write_config(config)
        remember(self.path, home and home.folder)

    def note_environment(self, devices: str) -> None:
        file = self.path / 'environment.json'
        try:
            starts = list(read_json(file))
        except (FileNotFoundError, ValueError, TypeError):
            starts = []  # the first start, or a damaged file: no reason not to train
        starts.append(environment(devices))
        write_whole(file, json.dumps(starts, indent=2) + '\n')


def read_config_text(path: Path) -> str:
    file = path / CONFIG_FILE
    if not file.is_file():
        what = f'has no {CONFIG_FILE}'
        if not path.is_dir():
            what = 'is a file' if path.is_file() else 'does not exist'
        raise UserError(
            f'{path} {what}; expected a run directory, as `flax-transformer train` writes it, or one of '
            f'`flax-transformer models` or of the hub; texts come from standard input.'
            f'{nearest(str(path), shipped_models())}'
        )
    with naming_damage(file):
        return read_limited(file).decode('utf-8')


def split_reference(reference: Path | str) -> tuple[Path, str | int | None]:
    """The run directory and checkpoint that `RUN[@which]` names."""
    text = str(reference)
    if '@' not in text or Path(text).exists() or imported_run(text):
        return find_run(Path(text)), None
    path, _, which = text.rpartition('@')
    if not which.isdecimal() and which not in CHECKPOINTS:
        hint = f'{nearest(which, CHECKPOINTS)} Expected a step, or {", ".join(CHECKPOINTS)}, after @'
        raise UserError(f'{text}: no checkpoint {which!r}.{hint}')
    return find_run(Path(path)), int(which) if which.isdecimal() else which


def find_run(path: Path) -> Path:
    """The run directory at a path, or the model of that name in the package or imported, which a run there hides."""
    shipped = shipped_models().get(str(path)) or imported_run(str(path))
    if shipped is None:
        return path
    if path.is_dir():
        _note_hidden(path)
        return path
    return shipped


def imported_run(name: str) -> Path | None:
    """The run of a model of Hugging Face's hub, OWNER/NAME, that was imported into the user's cache by this name."""
    if not HUB_NAME.fullmatch(name):
        return None
    try:
        file = user_cache() / 'hub' / name.replace('/', '--')
    except RuntimeError:  # a user without a home
        return None
    return file.with_name(file.read_text('utf-8')) if file.is_file() else None


def shipped_models() -> dict[str, Path]:
    return {folder.name: folder for folder in sorted((_PACKAGE / 'models').glob('*/'))}


@functools.cache
def _note_hidden(path: Path) -> None:
    say(f'{path}: the run in this folder, not the model of that name')


def environment(devices: str) -> dict[str, Any]:
    names = ('flax-transformer', 'jax', 'flax', 'optax', 'orbax-checkpoint', 'grain', 'sentencepiece', 'numpy')
    versions = dict.fromkeys(names)
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {
        'time': time.strftime('%Y-%m-%dT%H:%M:%S%z'),
        'python': platform.python_version(),
        'machine': platform.platform(),
        'devices': devices,
        'commit': _commit(),
        'versions': versions,
    }


def _commit() -> str | None:
    if not (_PACKAGE.parent / '.git').exists():
        return None
    try:
        command = ['git', '-C', str(_PACKAGE), 'describe', '--always', '--dirty', '--abbrev=12']
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
