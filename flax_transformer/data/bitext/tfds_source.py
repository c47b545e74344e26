"""Translation builders of TensorFlow Datasets."""

from collections.abc import Iterator
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.data.bitext.corpus import Corpus, Records
from flax_transformer.data.tfds_builders import TfdsSplit


class TfdsCorpus(Corpus):
    """`tfds:BUILDER/CONFIG:SPLIT`, prepared under `root`/tensorflow_datasets."""

    def __init__(self, name: str, root: Path, languages: tuple[str, str]) -> None:
        self._split, self._languages = TfdsSplit(name, root), languages
        known = self._split.info.features
        for language in languages:
            if language not in known:
                raise UserError(f'corpus {name!r} has no language {language!r}; it has {", ".join(sorted(known))}')
        super().__init__(name, self._split.files, {'split': self._split.split, 'languages': languages})

    def records(self) -> Iterator[Records]:
        for rows in self._split.rows():
            yield Records(*([row[language].bytes_list.value[0] for row in rows] for language in self._languages))

    def place(self, index: int, side: int) -> str:
        return f'{self.name}, example {index + 1} ({self._languages[side]})'
