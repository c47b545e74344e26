"""Numbers in words, in two languages: a corpus that is generated, never downloaded, and endlessly checkable."""

import numpy as np

from flax_transformer.config import DataConfig
from flax_transformer.data.pairs import Pairs
from flax_transformer.errors import UserError, nearest

SPLITS = ('train', 'validation', 'test')
_SEED = 2017  # of the draw of the numbers: every run has the same held-out ones


def split_numbers(split: str, config: DataConfig) -> np.ndarray:
    """The numbers of a split; none is in two. Train has all below 1,000, and round thousands, that are not held out."""
    if split not in SPLITS:
        raise UserError(f'number_words:{split}: expected one of {", ".join(SPLITS)}.{nearest(split, SPLITS)}')
    held_out = config.numbers_held_out
    total = config.numbers_train + 2 * held_out
    drawn = np.random.default_rng(_SEED).choice(config.numbers_below, size=total, replace=False)
    validation, test, train = np.split(drawn, [held_out, 2 * held_out])
    if split != 'train':
        return test if split == 'test' else validation
    # A uniform draw hardly ever meets small and round numbers, which are what people try first.
    simple = np.union1d(np.arange(1000), np.arange(1000) * 1000)
    simple = np.setdiff1d(simple[simple < config.numbers_below], drawn[: 2 * held_out])
    return np.concatenate([simple, np.setdiff1d(train, simple, assume_unique=True)])[: config.numbers_train]


def number_words(split: str, config: DataConfig) -> Pairs:
    """The pairs of a split, spelled by num2words in the config's two languages."""
    numbers = split_numbers(split, config)
    return Pairs(_spell(numbers, config.source_language), _spell(numbers, config.target_language))


def _spell(numbers: np.ndarray, language: str) -> list[str]:
    from num2words import CONVERTER_CLASSES, num2words

    if language not in CONVERTER_CLASSES:
        known = ', '.join(sorted(CONVERTER_CLASSES))
        raise UserError(f'num2words knows no language {language!r}; it knows {known}')
    try:
        return [num2words(int(number), lang=language) for number in numbers]
    except Exception as error:  # num2words raises many kinds, some of its languages on any number
        raise UserError(
            f'num2words cannot spell all numbers in {language!r} ({error!r}); choose another language'
        ) from None
