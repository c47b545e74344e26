"""Corpora from libraries: number words, TensorFlow Datasets, and the test sets that sacrebleu has downloaded."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from flax_transformer.common.errors import UserError, nearest
from flax_transformer.data.lines import CHUNK, read_lines
from flax_transformer.data.tfds_builders import TfdsSplit

from .config import DataConfig
from .corpus import Corpus, Pairs, Records

SPLITS = ('train', 'validation', 'test')
_SEED = 2017  # fixed, so that every run holds out the same numbers


def split_numbers(split: str, config: DataConfig) -> np.ndarray:
    """The numbers of a split; splits are disjoint. Train has all small and round numbers that are not held out."""
    if split not in SPLITS:
        raise UserError(f'number_words:{split}: expected one of {", ".join(SPLITS)}.{nearest(split, SPLITS)}')
    held_out = config.numbers_held_out
    total = config.numbers_train + 2 * held_out
    drawn = np.random.default_rng(_SEED).choice(config.numbers_below, size=total, replace=False)
    validation, test, train = np.split(drawn, [held_out, 2 * held_out])
    if split != 'train':
        return test if split == 'test' else validation
    # A uniform draw has hardly any small or round numbers, which are what people try first.
    simple = np.union1d(np.arange(1000), np.arange(1000) * 1000)
    simple = np.setdiff1d(simple[simple < config.numbers_below], drawn[: 2 * held_out])
    return np.concatenate([simple, np.setdiff1d(train, simple, assume_unique=True)])[: config.numbers_train]


class NumberWords(Corpus):
    """The pairs of a split, spelled out by num2words."""

    def __init__(self, name: str, config: DataConfig, languages: tuple[str, str]) -> None:
        self._numbers = split_numbers(name.removeprefix('number_words:'), config)
        self._languages = languages
        settings = {'below': config.numbers_below, 'train': config.numbers_train, 'held_out': config.numbers_held_out}
        super().__init__(name, settings={**settings, 'languages': languages})

    def records(self) -> Iterator[Records]:
        for first in range(0, len(self._numbers), CHUNK):
            numbers = self._numbers[first : first + CHUNK]
            yield Records(*(_spell(numbers, language) for language in self._languages))

    def place(self, index: int, side: int) -> str:
        return f'{self.name}, the number {self._numbers[index]} in {self._languages[side]!r}'


def _spell(numbers: np.ndarray, language: str) -> list[bytes]:
    from num2words import CONVERTER_CLASSES, num2words

    if language not in CONVERTER_CLASSES:
        known = ', '.join(sorted(CONVERTER_CLASSES))
        raise UserError(f'num2words knows no language {language!r}; it knows {known}')
    try:
        return [num2words(int(number), lang=language).encode() for number in numbers]
    except Exception as error:  # some of its languages fail on any number, each in its own way
        raise UserError(
            f'num2words cannot spell all numbers in {language!r} ({error!r}); choose another language'
        ) from None


class TfdsCorpus(Corpus):
    """`tfds:BUILDER/CONFIG:SPLIT`, prepared under `root`/tensorflow_datasets."""

    def __init__(self, name: str, root: Path, languages: tuple[str, str]) -> None:
        self._split = TfdsSplit(name, root)
        self._languages = languages
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


def read_sacrebleu(name: str) -> Pairs:
    """The pairs of `sacrebleu:TESTSET/SOURCE-TARGET`, with all references.

    Raises UserError, with the command that downloads it, if sacrebleu does not have it yet.
    """
    from sacrebleu.dataset import DATASETS
    from sacrebleu.utils import SACREBLEU_DIR

    test_set, _, languages = name.removeprefix('sacrebleu:').rpartition('/')
    if test_set not in DATASETS:
        hint = nearest(test_set, DATASETS)
        raise UserError(f'corpus {name!r}: expected sacrebleu:TESTSET/SOURCE-TARGET, as wmt14/en-de.{hint}')
    dataset = DATASETS[test_set]
    if languages not in dataset.langpairs:
        raise UserError(f'corpus {name!r}: {test_set} has the languages {", ".join(dataset.langpairs)}')
    folder = os.path.join(SACREBLEU_DIR, test_set)
    command = f'  sacrebleu -t {test_set} -l {languages} --echo src > /dev/null'
    if not os.path.isdir(folder) or not os.listdir(folder):
        raise UserError(f'corpus {name!r}: sacrebleu has no {test_set} in {folder}. Download it once:\n{command}')
    try:
        files = [dataset.get_source_file(languages), *dataset.get_reference_files(languages)]
    except OSError as error:  # a file is missing, and sacrebleu cannot download it now
        raise UserError(f'corpus {name!r}: {error}; remove {folder} and download it again:\n{command}') from None
    sources, *references = sides = [read_lines(file) for file in files]
    if not sources or not references or len(set(map(len, sides))) > 1:
        counts = ', '.join(f'{file} {len(lines)}' for file, lines in zip(files, sides, strict=True))
        raise UserError(f'corpus {name!r}: expected a source and references of as many lines, got {counts}')
    return Pairs(sources, references[0], tuple(references[1:]))
