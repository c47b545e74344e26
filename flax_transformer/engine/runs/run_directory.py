"""A run directory: a trained model complete in one folder, which can be moved.

docs/reference/run_directory.md lists its files. A task adds whatever its model needs besides parameters, such as a
tokenizer.
"""

import contextlib
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
from flax_transformer.common.files import LOCK_FILE, naming_damage, read_limited, write_whole
from flax_transformer.common.json_text import parse_json

from .shipped import find_run
from .task_module import home_of
from .trust import remember

CONFIG_FILE = 'config.json'
_UNSAVABLE = re.compile(r'[*?\[\\\ud800-\udfff]|:(?=/|$)')  # lone surrogates stand for bytes that are not UTF-8
C = TypeVar('C')  # the config of the run's task
CHECKPOINTS = ('last', 'best', 'average')  # the names after @; other checkpoints go by their step


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
        """Fresh parameters."""
        raise NotImplementedError

    def loaded(self, config: C, params: Any, scores: list[dict[str, Any]]) -> Any:
        """The `LoadedRun` with parameters of checkpoints that have these scores."""
        return LoadedRun(config, params)

    @property
    def config_file(self) -> Path:
        return self.path / CONFIG_FILE

    @property
    def checkpoints(self) -> Path:
        return self.path / 'checkpoints'

    def exists(self) -> bool:
        return self.config_file.is_file()

    def read_config(self) -> C:
        """The run's config. Raises UserError if this is no run directory, or if a later version wrote it."""
        text = read_config_text(self.path)
        try:
            return from_json(text, self.config_class)
        except ValueError as error:
            raise UserError(f'{self.config_file}: {error}') from None

    def write_config(self, config: Any) -> None:
        home = home_of(type(config))
        write_whole(self.config_file, to_json(config, module=home and home.module))

    def _is_left(self, file: Path) -> bool:
        """Whether an interrupted start leaves such a file."""
        return file.suffix == '.partial' or file.name in self.leftovers

    def check(self, config: Any) -> None:
        """Raises UserError if this config cannot start or resume a run here; writes nothing."""
        self._check_path()
        is_new = not self.exists()
        if is_new and self.path.exists() and not (self.path.is_dir() and all(map(self._is_left, self.path.iterdir()))):
            raise UserError(f'{self.path} exists and is not a run directory; give another --workdir, or empty it')
        if file := self.link_out():  # training must not write where a stranger's run leads
            raise UserError(
                f'{file} is a link to {os.readlink(file)}, and training would write there; put the run itself '
                'where there is room (--workdir)'
            )
        if refused := '' if is_new else refused_fields(self.read_config(), config, 'resumable'):
            raise UserError(
                f'{self.path} holds a run of another config:\n{refused}\n'
                'Give another --workdir, or use the values there'
            )

    def _check_path(self) -> None:
        """Raises UserError for a path under which Orbax saves checkpoints that cannot be read.

        It merges a checkpoint's parts by a glob of the whole path, and a pattern that does not match itself merges
        nothing, without an error. `gs:` and the like name other file systems.
        """
        path = str(self.path.absolute())
        if found := _UNSAVABLE.search(path):
            raise UserError(
                f'{path!r}: checkpoints cannot be saved below a folder with {found[0]!r} in its name; expected a path '
                'without * ? [ \\ and without a colon at the end of a name, in UTF-8: rename the folder, or give '
                'another --workdir'
            )

    def link_out(self, name: str = '') -> Path | None:
        """The first link, at or below a name in the directory, that leads out of it."""
        start = self.path / name
        inside = self.path.resolve()
        below = (Path(folder, each) for folder, *names in os.walk(start) for each in chain(*names))
        for file in chain([start] if name else [], below):
            # Path.resolve raises for a link to itself.
            if file.is_symlink() and not Path(os.path.realpath(file)).is_relative_to(inside):
                return file
        return None

    def open(self, config: Any) -> None:
        """Creates the directory, or finds this config's run there; writes the config, and remembers the run as ours."""
        self.check(config)
        self.path.mkdir(parents=True, exist_ok=True)
        self.write_config(config)
        home = home_of(type(config))
        remember(self.path, home and home.folder)

    def note_environment(self, devices: str) -> None:
        """Adds this start's versions and devices to environment.json."""
        file = self.path / 'environment.json'
        try:
            starts = list(parse_json(read_limited(file)))
        except (FileNotFoundError, ValueError, TypeError):
            starts = []  # the first start, or a damaged file: no reason not to train
        write_whole(file, json.dumps([*starts, environment(devices)], indent=2) + '\n')


def read_config_text(path: Path) -> str:
    """The text of a run's config.json. Raises UserError if there is none, or no text."""
    file = path / CONFIG_FILE
    if not file.is_file():
        what = f'has no {CONFIG_FILE}'
        if not path.is_dir():
            what = 'is a file' if path.is_file() else 'does not exist'
        raise UserError(f'{path} {what}; expected a run directory, as `flax-transformer train` writes it')
    with naming_damage(file):
        return read_limited(file).decode('utf-8')


def split_reference(reference: Path | str) -> tuple[Path, str | int | None]:
    """The run directory and checkpoint that `RUN[@which]` names; RUN may be a model that comes with the package.

    Raises UserError for an unknown `which`.
    """
    text = str(reference)
    if '@' not in text or Path(text).exists():
        return find_run(Path(text)), None
    path, _, which = text.rpartition('@')
    if which.isdecimal():
        return find_run(Path(path)), int(which)
    if which not in CHECKPOINTS:
        hint = f'{nearest(which, CHECKPOINTS)} Expected a step, or {", ".join(CHECKPOINTS)}, after @'
        raise UserError(f'{text}: no checkpoint {which!r}.{hint}')
    return find_run(Path(path)), which


DIGEST_FILE = 'tokenizer.sha256'  # next to the folder `tokenizer`; older runs have none


def write_digest(run: Path, digest: str) -> None:
    write_whole(run / DIGEST_FILE, digest + '\n')


def check_digest(run: Path, digest: str) -> None:
    """Raises UserError if the run began with a tokenizer of another digest."""
    with contextlib.suppress(FileNotFoundError):
        if read_limited(run / DIGEST_FILE, 1000).strip() != digest.encode():
            raise UserError(
                f'{run / "tokenizer"} is not the tokenizer that the run began with: its digest is not that in '
                f'{DIGEST_FILE}. Restore the one that the run was trained with'
            )


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
