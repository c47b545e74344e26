"""Numbers in words, in two languages: a corpus that is generated, so it needs no download and is easy to check."""

from collections.abc import Iterator

import numpy as np

from flax_transformer.common.errors import UserError, nearest
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.data.bitext.corpus import Corpus, Pairs, Records
from flax_transformer.data.lines import CHUNK

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

    def pairs(self) -> Iterator[Pairs]:
        for first in range(0, len(self._numbers), CHUNK):
            numbers = self._numbers[first : first + CHUNK]
            yield Pairs(*(_spell(numbers, language) for language in self._languages))

    def records(self) -> Iterator[Records]:
        for pairs in self.pairs():
            yield Records(*([text.encode() for text in side] for side in (pairs.sources, pairs.targets)))

    def place(self, index: int, side: int) -> str:
        return f'{self.name}, the number {self._numbers[index]} in {self._languages[side]!r}'


def _spell(numbers: np.ndarray, language: str) -> list[str]:
    from num2words import CONVERTER_CLASSES, num2words

    if language not in CONVERTER_CLASSES:
        known = ', '.join(sorted(CONVERTER_CLASSES))
        raise UserError(f'num2words knows no language {language!r}; it knows {known}')
    try:
        return [num2words(int(number), lang=language) for number in numbers]
    except Exception as error:  # of many kinds; some of its languages fail on any number
        raise UserError(
            f'num2words cannot spell all numbers in {language!r} ({error!r}); choose another language'
        ) from None
