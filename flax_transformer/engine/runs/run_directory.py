"""A run directory: all that a trained model is, in one folder that can be moved.

config.json        the config, with its schema version
tokenizer/         the tokenizer that the model was trained with
data_files.json    sizes and checksums of the training and validation files that the run began with
data_cache/        the training corpora as ids; may be deleted, and is made again where it is needed
checkpoints/       parameters, optimiser, data position, by step
metrics.jsonl      what training and validation measured; tensorboard/ holds the same
environment.json   versions and devices of each start
lock               held by the process that trains here
"""

import contextlib
import dataclasses
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flax_transformer.common.config_json import changed_fields, from_json, to_json
from flax_transformer.common.errors import UserError, nearest
from flax_transformer.common.files import write_whole
from flax_transformer.common.locks import LOCK_FILE, in_use
from flax_transformer.data.audit.config import CheckConfig
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.engine.config.parallel import ParallelConfig
from flax_transformer.marian.tokenizer import KIND, MarianTokenizer
from flax_transformer.tasks.translation.config import Config
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.text.tokenizer import Tokenizer, kind_of

CACHE = 'data_cache'

# What may change when a run goes on; everything else would make it another run.
MAY_CHANGE = {
    'data.root',
    'data.cache',
    'data.test',
    *(f'check.{field.name}' for field in dataclasses.fields(CheckConfig)),
    'training.steps',
    'training.log_every',
    'training.evaluate_every',
    'training.checkpoint_every',
    'training.keep_last',
    'training.average_last',
    'training.sample_translations',
    'training.max_skipped_steps',
    'training.keep_best',
    'training.best_by',
    'training.evaluate_bleu',
    'training.patience',
    'training.on_full_disk',
    'training.smoothing_steps',
    'training.spike_deviations',
    'training.draw_attention',
    'training.profile_from',
    'training.profile_steps',
    'optimizer.schedule_steps',
    *(f'decoding.{field.name}' for field in dataclasses.fields(DecodingConfig)),
    *(f'parallel.{field.name}' for field in dataclasses.fields(ParallelConfig)),
}


class RunDirectory:
    """The files of a run, but for its checkpoints."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @property
    def config_file(self) -> Path:
        return self.path / 'config.json'

    @property
    def checkpoints(self) -> Path:
        return self.path / 'checkpoints'

    def exists(self) -> bool:
        return self.config_file.is_file()

    def read_config(self) -> Config:
        """The run's config. Raises UserError where this is no run directory, or one of a later version."""
        if not self.exists():
            what = 'has no config.json' if self.path.is_dir() else 'does not exist'
            raise UserError(f'{self.path} {what}; expected a run directory, as `flax-transformer train` writes it')
        try:
            return from_json(self.config_file.read_text(encoding='utf-8'))
        except ValueError as error:
            raise UserError(f'{self.config_file}: {error}') from None

    def check(self, config: Config) -> None:
        """Raises UserError where the directory cannot take this config's run; writes nothing."""
        self._check_links()
        if not self.exists():
            if self.path.exists() and not _is_empty_folder(self.path):
                raise UserError(f'{self.path} exists and is not a run directory; give another --workdir, or empty it')
            return
        changed = changed_fields(self.read_config(), config)
        refused = [
            f'  {name}: {old!r} there, {new!r} here' for name, (old, new) in changed.items() if name not in MAY_CHANGE
        ]
        if refused:
            raise UserError(
                f'{self.path} holds a run of another config:\n'
                + '\n'.join(refused)
                + '\nGive another --workdir, or the values that are there'
            )

    def _check_links(self) -> None:
        """Raises UserError for a link out of the directory: a stranger's run must not write where it leads."""
        inside = self.path.resolve()
        for folder, folders, files in os.walk(self.path):
            for name in (*folders, *files):
                file = Path(folder, name)
                if file.is_symlink() and not file.resolve().is_relative_to(inside):
                    raise UserError(
                        f'{file} is a link to {os.readlink(file)}, and training would write there; put the run itself '
                        'where there is room (--workdir), and the tokenised corpora with --data.cache'
                    )

    @contextlib.contextmanager
    def in_use(self, say: Callable[[str], None]) -> Iterator[None]:
        """Keeps other processes out of the directory. Raises UserError where one is at work in it."""
        with in_use(self.path, say=say):
            yield

    def open(self, config: Config) -> None:
        """Makes the directory, or finds this config's run there, and keeps the config."""
        self.check(config)
        self.path.mkdir(parents=True, exist_ok=True)
        self._write_config(config)

    def _write_config(self, config: Config) -> None:
        write_whole(self.config_file, to_json(config))

    @property
    def data_files(self) -> Path:
        return self.path / 'data_files.json'

    def read_data_files(self) -> dict[str, list[dict[str, Any]]]:
        """The files of each corpus when the run began, as data.listing lists them; none of an older run."""
        try:
            found = dict(json.loads(self.data_files.read_text(encoding='utf-8')))
            fields = ('path', 'bytes', 'mtime_ns', 'sha256')
            return {name: [{field: entry[field] for field in fields} for entry in of] for name, of in found.items()}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, LookupError):
            raise UserError(f'{self.data_files} is damaged; copy it from the run again, or remove it') from None

    def write_data_files(self, files: dict[str, list[dict[str, Any]]]) -> None:
        """Keeps the files of each corpus; what the run began with is never overwritten."""
        if not self.data_files.exists():
            write_whole(self.data_files, json.dumps(files, indent=2) + '\n')

    @contextlib.contextmanager
    def data_cache(self, config: Config) -> Iterator[Path]:
        """The folder of tokenised corpora: data.cache, else one in the run directory. What failed leaves no trace."""
        if config.data.cache is not None:
            yield Path(config.data.cache).expanduser()
            return
        folder = self.path / CACHE
        try:
            yield folder
        except BaseException:
            if not any(file.is_dir() for file in _files_in(folder)):
                shutil.rmtree(folder, ignore_errors=True)
            if not _files_in(self.path):
                with contextlib.suppress(OSError):
                    self.path.rmdir()
            raise

    def has_tokenizer(self) -> bool:
        return (self.path / 'tokenizer' / 'tokenizer.json').is_file()

    def read_tokenizer(self) -> Tokenizer:
        folder = self.path / 'tokenizer'
        return (MarianTokenizer if kind_of(folder) == KIND else SentencePieceTokenizer).load(folder)

    def write_tokenizer(self, tokenizer: Tokenizer) -> None:
        tokenizer.save(self.path / 'tokenizer')

    def note_environment(self, devices: str) -> None:
        """Adds this start's versions and devices to environment.json."""
        file = self.path / 'environment.json'
        try:
            starts = list(json.loads(file.read_text(encoding='utf-8')))
        except (FileNotFoundError, ValueError, TypeError):
            starts = []  # the first start, or a damaged file: no reason not to train
        write_whole(file, json.dumps([*starts, environment(devices)], indent=2) + '\n')


CHECKPOINTS = ('last', 'best', 'average')  # that have a name; others go by their step


def split_reference(reference: Path | str) -> tuple[Path, str | int | None]:
    """The run directory of `RUN[@which]`, and which checkpoint. Raises UserError where `which` is no such thing."""
    text = str(reference)
    if '@' not in text or Path(text).exists():
        return Path(text), None
    path, _, which = text.rpartition('@')
    if which.isdecimal():
        return Path(path), int(which)
    if which not in CHECKPOINTS:
        hint = f'{nearest(which, CHECKPOINTS)} Expected a step, or {", ".join(CHECKPOINTS)}, behind @'
        raise UserError(f'{text}: no checkpoint {which!r}.{hint}')
    return Path(path), which


def _is_empty_folder(path: Path) -> bool:
    """Whether nothing is there but what an interrupted start left."""
    left = (CACHE, LOCK_FILE)
    return path.is_dir() and all(file.suffix == '.partial' or file.name in left for file in path.iterdir())


def _files_in(path: Path) -> list[Path]:
    return list(path.iterdir()) if path.is_dir() else []


def environment(devices: str) -> dict[str, Any]:
    """Versions, commit, machine and devices of this process."""
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
    """The commit of the checkout that this package is run from, None where it is installed."""
    package = Path(__file__).parents[2]
    if not (package.parent / '.git').exists():
        return None
    try:
        command = ['git', '-C', str(package), 'describe', '--always', '--dirty', '--abbrev=12']
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
