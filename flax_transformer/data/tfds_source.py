"""TensorFlow Datasets without TensorFlow: translation builders, prepared as array_record."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flax_transformer.data.corpus import CHUNK, Corpus, Records
from flax_transformer.errors import UserError, nearest


class TfdsCorpus(Corpus):
    """`tfds:BUILDER/CONFIG:SPLIT`, prepared below `root`/tensorflow_datasets."""

    def __init__(self, name: str, root: Path, languages: tuple[str, str]) -> None:
        """Raises UserError at once, with the remedy, where it is not prepared: TFDS would retry a download first."""
        self._split, self._languages = _parsed(name)[1], languages
        self._builder = tfds_builder(name, root)
        part = self._split.partition('[')[0]
        if part not in self._builder.info.splits:
            prepared = ', '.join(self._builder.info.splits) or 'nothing'
            raise UserError(
                f'corpus {name!r}: split {part!r} is not prepared below {root / "tensorflow_datasets"} '
                f'(prepared: {prepared}). Prepare it once:\n  flax-transformer prepare {name} --root {root}'
            )
        known = self._builder.info.features
        for language in languages:
            if language not in known:
                raise UserError(f'corpus {name!r} has no language {language!r}; it has {", ".join(sorted(known))}')
        files = [Path(file) for file in self._builder.info.splits[part].filepaths]
        super().__init__(name, files, {'split': self._split, 'languages': languages})

    def records(self) -> Iterator[Records]:
        rows = self._builder.as_data_source(self._split)
        for first in range(0, len(rows), CHUNK):
            chunk = rows.__getitems__(range(first, min(first + CHUNK, len(rows))))
            yield Records(*([_bytes(row[language]) for row in chunk] for language in self._languages))

    def place(self, index: int, side: int) -> str:
        return f'{self.name}, example {index + 1} ({self._languages[side]})'


def prepare_tfds(name: str, root: Path) -> Path:
    """Downloads and prepares the builder of a `tfds:` name; returns its folder. Does nothing where it is prepared."""
    builder = tfds_builder(name, root)
    builder.download_and_prepare()
    return Path(builder.data_path)


def tfds_builder(name: str, root: Path) -> Any:
    """The builder of a `tfds:` name. Raises UserError where TensorFlow Datasets has no such builder."""
    builder_name, _ = _parsed(name)

    import tensorflow_datasets as tfds
    import tensorflow_datasets.translate

    _check_is_known(name, builder_name, tfds)
    return tfds.builder(builder_name, data_dir=root / 'tensorflow_datasets', file_format='array_record')


def _parsed(name: str) -> tuple[str, str]:
    """The builder and the split."""
    builder_name, _, split = name.removeprefix('tfds:').partition(':')
    if not builder_name or not split or ':' in split.partition('[')[0]:
        raise UserError(f'corpus {name!r}: expected tfds:NAME/CONFIG:SPLIT')
    return builder_name, split


def _bytes(text: Any) -> bytes:
    return text if isinstance(text, bytes) else str(text).encode('utf-8', 'replace')


def _check_is_known(name: str, builder_name: str, tfds: Any) -> None:
    """Asking tfds.builder for what it does not know makes it import TensorFlow."""
    base, _, config_name = builder_name.partition('/')
    known = tfds.list_builders(with_community_datasets=False)
    if base not in known:
        raise UserError(f'corpus {name!r}: TensorFlow Datasets has no such builder.{nearest(base, known)}')
    configs = list(tfds.builder_cls(base).builder_configs)
    if config_name and config_name not in configs:
        hint = nearest(config_name, configs)
        raise UserError(f'corpus {name!r}: {base} has no config {config_name!r}, only {", ".join(configs)}.{hint}')
