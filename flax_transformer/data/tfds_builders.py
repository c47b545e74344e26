"""TensorFlow Datasets without TensorFlow: builders prepared as array_record."""

import logging
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from flax_transformer.common.errors import UserError, first_line, nearest
from flax_transformer.common.files import naming_damage
from flax_transformer.common.json_text import read_json
from flax_transformer.common.quiet import shows_progress

from .lines import CHUNK

_OWN_FEATURE = re.compile(r'tensorflow_datasets\.core\.features(\.[a-z_]+)*\.[A-Z]\w*')


class TfdsSplit:
    """A split of a prepared builder: `tfds:BUILDER/CONFIG:SPLIT`, below `root`/tensorflow_datasets."""

    def __init__(self, name: str, root: Path) -> None:
        self.split = _parsed(name)[1]
        self._builder = tfds_builder(name, root)
        self.info = self._builder.info
        splits = self.info.splits
        parts = [part.partition('[')[0].strip() for part in self.split.split('+')]
        missing = [part for part in parts if part not in splits]
        if missing:
            prepared = ', '.join(splits) or 'nothing'
            raise UserError(
                f'corpus {name!r}: split {missing[0]!r} is not prepared below {_folder(root)} '
                f'(prepared: {prepared}). Prepare it once:\n  {_command(name, root)}'
            )
        try:
            self.files = [Path(file) for file in splits[self.split].filepaths]
        except ValueError as error:
            raise UserError(f'corpus {name!r}: {first_line(error)}') from None
        if not self.files:
            raise UserError(f'corpus {name!r} is empty; expected at least one example')

    def rows(self) -> Iterator[list[Any]]:
        """The examples in chunks of some CHUNK, each a map from a feature's name to its value in a tf.Example."""
        from tensorflow_datasets.core.decode import DeserializeMethod
        from tensorflow_datasets.proto import tf_example_pb2

        # Four times as fast as TFDS's decoding.
        rows = self._builder.as_data_source(self.split, deserialize_method=DeserializeMethod.RAW_BYTES)
        for first in range(0, len(rows), CHUNK):
            chunk = rows.__getitems__(range(first, min(first + CHUNK, len(rows))))
            yield [tf_example_pb2.Example.FromString(row).features.feature for row in chunk]


def prepare_tfds(name: str, root: Path) -> Path:
    """Downloads and prepares the builder of a `tfds:` name, unless that is done; returns its folder."""
    builder = tfds_builder(name, root)

    import requests
    import tensorflow_datasets as tfds
    from tensorflow_datasets.core.download.download_manager import NonMatchingChecksumError
    from tensorflow_datasets.core.download.extractor import ExtractError

    if not shows_progress():
        tfds.disable_progress_bar()
    try:
        with _local_files_and_few_retries():
            builder.download_and_prepare()
    except requests.RequestException as error:
        url = error.request.url if error.request is not None else 'a file'
        why = 'its server cannot be reached' if isinstance(error, requests.ConnectionError) else str(error)
        raise UserError(
            f'corpus {name!r}: {url} was not downloaded: {why}. Run the command again where the network is; '
            'files that came are kept'
        ) from error
    except (
        AssertionError,  # WMT: files that must be downloaded by hand
        ImportError,
        ExtractError,
        tfds.download.DownloadError,
        NonMatchingChecksumError,
    ) as error:
        raise UserError(f'corpus {name!r} could not be prepared: {error}') from error
    return Path(builder.data_path)


def tfds_builder(name: str, root: Path) -> Any:
    builder_name = _parsed(name)[0]
    folder = _folder(root)

    import tensorflow_datasets as tfds
    import tensorflow_datasets.translate

    # A builder from the user's own code is read without that code once it is prepared.
    if not any((folder / builder_name).glob('*/dataset_info.json')):
        _check_is_known(name, builder_name, tfds)
    for level in ('*', '*/*', '*/*/*'):  # version, config/version; not `**`, which passes over links to folders
        for file in (folder / builder_name.partition('/')[0]).glob(f'{level}/features.json'):
            _check_features(file)
    try:
        return tfds.builder(builder_name, data_dir=folder, file_format='array_record')
    except ValueError as error:
        if 'File format is already set' not in str(error):
            raise
        raise UserError(
            f'corpus {name!r} is prepared in {folder / builder_name} in another format than array_record; move that '
            f'folder away and prepare it again:\n  {_command(name, root)}'
        ) from None


def builder_path(name: str, root: Path) -> Path:
    return _folder(root) / _parsed(name)[0]


def _folder(root: Path) -> Path:
    return root / 'tensorflow_datasets'


def _parsed(name: str) -> tuple[str, str]:
    builder_name, _, split = name.removeprefix('tfds:').partition(':')
    parts = builder_name.split('/')
    if not {'', '.', '..'}.isdisjoint(parts) or not split or ':' in split.partition('[')[0]:
        raise UserError(f'corpus {name!r}: expected tfds:NAME/CONFIG:SPLIT')
    return builder_name, split


def _check_features(file: Path) -> None:
    """Raises UserError if a prepared data set asks for classes, whose modules TFDS would import, but TFDS's own."""
    with naming_damage(file, 'prepare the data set again'):
        left = [read_json(file)]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            # TFDS reads it as a protocol buffer, which has two spellings of a field's name.
            names = [value[key] for key in ('pythonClassName', 'python_class_name') if key in value]
            foreign = [name for name in names if not _OWN_FEATURE.fullmatch(str(name))]
            if foreign:
                raise UserError(
                    f'{file} asks for the class {str(foreign[0])[:80]}, expected one of TensorFlow Datasets: it would '
                    'run code that came with the data'
                )
            left += value.values()
        elif isinstance(value, list):
            left += value


def _command(name: str, root: Path) -> str:
    return shlex.join(['flax-transformer', 'prepare', name, '--root', str(root)])


@contextmanager
def _local_files_and_few_retries() -> Iterator[None]:
    """Has TFDS unpack archives without TensorFlow and give up on a download within seconds, while the block lasts.

    Its extractor needs of TensorFlow what `open` does. By default a download pauses for 204 s in ten tries.
    """
    from tensorflow_datasets.core.download import downloader, extractor

    files = SimpleNamespace(compat=SimpleNamespace(as_text=str), io=SimpleNamespace(gfile=SimpleNamespace(GFile=open)))
    before = extractor.tf, downloader.MAX_RETRIES, downloader._open_with_requests
    extractor.tf = files
    downloader.MAX_RETRIES = 3
    downloader._open_with_requests = partial(before[2], timeout=(10, 60))  # seconds to connect, and between blocks
    logger = logging.getLogger('urllib3.connectionpool')  # logs each retry
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        extractor.tf, downloader.MAX_RETRIES, downloader._open_with_requests = before
        logger.setLevel(level)


def _check_is_known(name: str, builder_name: str, tfds: Any) -> None:
    """Raises UserError for an unknown builder; tfds.builder itself would import TensorFlow first."""
    base, _, config_name = builder_name.partition('/')
    known = tfds.list_builders(with_community_datasets=False)
    if base not in known:
        raise UserError(f'corpus {name!r}: TensorFlow Datasets has no such builder.{nearest(base, known)}')
    configs = list(tfds.builder_cls(base).builder_configs)
    if config_name and config_name not in configs:
        hint = nearest(config_name, configs)
        raise UserError(f'corpus {name!r}: {base} has no config {config_name!r}, only {", ".join(configs)}.{hint}')
