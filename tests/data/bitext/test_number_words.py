"""Number words: the splits share no number, every run draws the same ones, and num2words spells them."""

import numpy as np
import pytest
from num2words import num2words

from flax_transformer.common.errors import UserError
from flax_transformer.config import DataConfig
from flax_transformer.data.bitext.sources import SPLITS, open_corpus, read_corpus, split_numbers
from flax_transformer.data.lines import CHUNK

SMALL = DataConfig(numbers_below=5000, numbers_train=300, numbers_held_out=40)
TIGHT = DataConfig(numbers_below=1200, numbers_train=1000, numbers_held_out=100)  # every number is in some split
CONFIGS = pytest.mark.parametrize('config', [DataConfig(), SMALL, TIGHT], ids=['default', 'small', 'tight'])


@CONFIGS
def test_no_number_is_in_two_splits_nor_twice_in_one(config):
    numbers = np.concatenate([split_numbers(split, config) for split in SPLITS])
    assert len(np.unique(numbers)) == len(numbers) == config.numbers_train + 2 * config.numbers_held_out
    assert numbers.min() >= 0
    assert numbers.max() < config.numbers_below


def test_the_held_out_numbers_stay_the_same_from_version_to_version():
    """A trained model's scores mean something only on numbers that it has not seen."""
    assert split_numbers('test', DataConfig())[:3].tolist() == [13670, 176144, 199651]
    assert split_numbers('validation', DataConfig())[:3].tolist() == [228120, 743804, 520162]


def test_all_below_1000_and_round_numbers_are_in_train_unless_held_out():
    config = DataConfig()
    held_out = np.concatenate([split_numbers('validation', config), split_numbers('test', config)])
    known = np.concatenate([held_out, split_numbers('train', config)])
    assert set(range(1000)) | set(range(0, 1_000_000, 1000)) <= set(known.tolist())


@pytest.mark.parametrize(('source', 'target'), [('en', 'de'), ('fr', 'en')])
@pytest.mark.parametrize('split', SPLITS)
def test_the_strings_are_those_of_num2words(split, source, target):
    config = DataConfig(
        source_language=source, target_language=target, numbers_below=5000, numbers_train=300, numbers_held_out=40
    )
    pairs = read_corpus(f'number_words:{split}', config)
    numbers = split_numbers(split, config).tolist()
    assert pairs.sources == [num2words(number, lang=source) for number in numbers]
    assert pairs.targets == [num2words(number, lang=target) for number in numbers]
    assert read_corpus(f'number_words:{split}', config) == pairs


def test_an_unknown_language_and_an_unknown_split_are_told_with_the_known_ones():
    with pytest.raises(UserError, match=r"knows no language 'xx'; it knows .*\bde\b.*\ben\b"):
        read_corpus('number_words:test', DataConfig(source_language='xx'))
    with pytest.raises(UserError, match=r'number_words:valid: expected one of .* Did you mean validation'):
        read_corpus('number_words:valid', DataConfig())


@pytest.mark.parametrize('side', ['source_language', 'target_language'])
def test_a_language_that_num2words_cannot_spell_is_told(side):
    config = DataConfig(numbers_below=12_400, numbers_train=12_000, numbers_held_out=10, **{side: 'am'})
    with pytest.raises(UserError, match=r"num2words cannot spell all numbers in 'am' \(TypeError.*another language"):
        read_corpus('number_words:train', config)


def test_numbers_come_in_chunks_and_have_a_place():
    config = DataConfig(numbers_below=50_000, numbers_train=CHUNK + 1, numbers_held_out=5)
    corpus = open_corpus('number_words:train', config)
    first, last = corpus.records()
    assert [len(side) for side in (*first, *last)] == [CHUNK, CHUNK, 1, 1]
    number = split_numbers('train', config)[CHUNK]
    assert corpus.place(CHUNK, 1) == f"number_words:train, the number {number} in 'de'"
    assert last.targets == [num2words(int(number), lang='de').encode()]
