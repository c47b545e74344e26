"""Faults are planted in a clean corpus: each is found, counted and located, and nothing else is reported."""

import dataclasses
import hashlib
import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from clean_corpus import clean_corpus, write_corpus

from flax_transformer.config import CheckConfig, Config, DataConfig, TokenizerConfig, TransformerConfig
from flax_transformer.data.audit import KINDS, Report, audit, changed_since


def config_of(folder: Path, **data: object) -> Config:
    settings = {
        'train': 'train.{lang}',
        'validation': 'validation.{lang}',
        'test': 'test.{lang}',
        'root': str(folder),
        'source_length': 64,
        'target_length': 64,
    }
    return Config(model=TransformerConfig(vocab_size=300), data=DataConfig(**(settings | data)))


class Fault(NamedTuple):
    """What is planted, and what is to be found: so many, the first of them at that place."""

    name: str
    kind: str
    plant: Callable[[dict], object]
    count: int
    place: str = ''
    corpus: str = 'train'
    severity: str = 'warning'
    change: Callable[[Config], Config] = lambda config: config
    also: tuple[str, ...] = ()  # kinds that such a corpus shows besides
    near: int = 0  # by how much the count may differ


def edit(side, lines, change, split='train'):
    """A function that changes some lines of a side."""

    def plant(corpus):
        for line in lines:
            corpus[split][side][line] = change(corpus[split][side][line])

    return plant


def add(*pairs, split='train'):
    def plant(corpus):
        for source, target in pairs:
            corpus[split][0].append(source.encode())
            corpus[split][1].append(target.encode())

    return plant


def shift(first, last, split='train', side=1):
    """Loses line `first` of a side and gains one after line `last`."""

    def plant(corpus):
        lines = corpus[split][side]
        lost = lines.pop(first)
        lines.insert(last, lost)

    return plant


def exchange(lines):
    def plant(corpus):
        sources, targets = corpus['train']
        for line in lines:
            sources[line], targets[line] = targets[line], sources[line]

    return plant


def copy_lines(lines):
    def plant(corpus):
        for line in lines:
            corpus['train'][1][line] = corpus['train'][0][line]

    return plant


def take(lines, split, side):
    """Puts a side of held-out pairs into the training data."""

    def plant(corpus):
        for line in lines:
            corpus['train'][side][line + 100] = corpus[split][side][line].upper()

    return plant


def repeat(count):
    def plant(corpus):
        for lines in corpus['train']:
            lines.extend(lines[:count])

    return plant


def again_otherwise(count):
    """Sources that come again with the targets of others, neighbours of like length."""

    def plant(corpus):
        sources, targets = corpus['train']
        sources += sources[:count]
        targets += [line.replace(b' ', b' auch ', 1) for line in targets[:count]]

    return plant


def replace_in(section, **values):
    return lambda config: dataclasses.replace(
        config, **{section: dataclasses.replace(getattr(config, section), **values)}
    )


def same(from_split, to_split):
    def plant(corpus):
        corpus[to_split] = tuple(list(lines) for lines in corpus[from_split])

    return plant


def test_from_training(corpus):
    corpus['test'] = tuple(lines[:60] for lines in corpus['train'])


test_from_training.__test__ = False
FRENCH = 'La vieille dame achète du pain et du fromage au marché près de la gare.'.encode()
RUSSIAN = 'Старик читает газету в саду, потому что идёт дождь.'.encode()
some = range(40, 46)

FAULTS = [
    Fault('unequal line counts', 'missing_side', lambda c: c['train'][1].__delitem__(slice(-3, None)), 3, 'train.de, line 498', severity='error'),
    Fault('a part shifted by one line', 'shifted', shift(150, 300), 150, 'train.en, line 151', severity='error', near=6),
    Fault('a part shifted the other way', 'shifted', shift(150, 300, side=0), 150, 'train.en, line 151', severity='error', near=6),
    Fault('the whole file shifted by one line', 'shifted', shift(0, 499), 500, 'train.en, line 1', severity='error', near=6),
    Fault('a shifted validation set', 'shifted', shift(0, 59, 'validation'), 60, 'validation.en, line 1', 'validation', 'error', near=6),
    Fault('all pairs swapped', 'swapped_corpus', exchange(range(500)), 500, severity='error'),
    Fault('single pairs swapped', 'swapped_pair', exchange(some), 6, 'train.en, line 41'),
    Fault('sources copied', 'copy', copy_lines(range(40, 55)), 15, 'train.en, line 41'),
    Fault('blank sides', 'blank', edit(1, some, lambda line: b' \t'), 6, 'train.de, line 41'),
    Fault('a blank test line', 'blank', edit(0, [7], lambda line: b''), 1, 'test.en, line 8', 'test'),
    Fault('invalid UTF-8', 'invalid_utf8', edit(1, some, lambda line: line + b'\xfc'), 6, 'train.de, line 41', severity='error'),
    Fault('invalid UTF-8 in the test set', 'invalid_utf8', edit(0, [9], lambda line: line + b'\xff'), 1, 'test.en, line 10', 'test', 'error'),
    Fault('two Unicode forms', 'normalization', edit(1, range(500), lambda line: line), 0, 'train.de, line', 'language de'),
    Fault('control characters', 'control', edit(0, some, lambda line: line.replace(b' ', b' \x07', 1)), 6, 'train.en, line 41'),
    Fault('zero-width characters', 'control', edit(1, some, lambda line: line.replace(b' ', ' \u200b'.encode(), 1)), 6, 'train.de, line 41'),
    Fault('a byte order mark inside', 'control', edit(1, [44], lambda line: '\ufeff'.encode() + line), 1, 'train.de, line 45'),
    Fault('HTML entities', 'entity', edit(0, some, lambda line: line.replace(b' ', b' &quot;', 1)), 6, 'train.en, line 41'),
    Fault('numbered HTML entities', 'entity', edit(1, some, lambda line: line.replace(b' ', b'&#160;', 1)), 6, 'train.de, line 41'),
    Fault('HTML tags', 'entity', edit(0, some, lambda line: b'<b>' + line + b'</b>'), 6, 'train.en, line 41'),
    Fault('mojibake', 'mojibake', edit(1, some, lambda line: line + ' Ã¤hnlich schÃ¶n'.encode()), 6, 'train.de, line 41'),
    Fault('mojibake of quotation marks', 'mojibake', edit(0, some, lambda line: line + ' â€œyesâ€\x9d'.encode()), 6, 'train.en, line 41'),
    Fault('replacement characters', 'mojibake', edit(0, some, lambda line: line + ' caf\ufffd'.encode()), 6, 'train.en, line 41'),
    Fault('lines in French', 'wrong_language', edit(1, some, lambda line: FRENCH[:60] + line[:9]), 6, 'train.de, line 41'),
    Fault('lines in another script', 'wrong_language', edit(1, some, lambda line: RUSSIAN), 6, 'train.de, line 41'),
    Fault('German on both sides', 'wrong_language', edit(0, some, lambda line: b'Der Hund sucht seit gestern den Knochen unter dem Tisch.'), 6, 'train.en, line 41'),
    Fault('lengths that do not fit', 'length_ratio', edit(0, some, lambda line: b'Oh!'), 6, 'train.en, line 41'),
    Fault('over-long lines', 'too_long', lambda c: [edit(side, some, lambda line: b' '.join([line] * 16))(c) for side in (0, 1)], 6, 'train.en, line 41'),
    Fault('duplicates', 'duplicate', repeat(60), 60, 'train.en, line 501'),
    Fault('several targets for a source', 'contradiction', again_otherwise(30), 30, 'train.en, line 501', change=replace_in('check', contradiction=0.01)),
    Fault('validation sources in training', 'leaked', take(range(4), 'validation', 0), 4, 'validation.en, line 1', 'validation'),
    Fault('test targets in training', 'leaked', take(range(4), 'test', 1), 4, 'test.de, line 1', 'test'),
    Fault('a test set from training', 'test_is_training', test_from_training, 60, 'test.en, line 1', 'test', 'error', also=('leaked',)),
    Fault('validation is test', 'validation_is_test', same('test', 'validation'), 60, 'test.en, line 1', 'test'),
    Fault('too few pairs', 'few_pairs', lambda c: None, 500, corpus='training', change=replace_in('model', vocab_size=8000)),
    Fault('characters without pieces', 'uncovered', add(('A snowman ☃ stands in the garden.', 'Ein Schneemann steht im Garten.')), 1, 'train.en, line 501', 'training', change=replace_in('tokenizer', byte_fallback=False)),
    Fault('numbers that differ', 'numbers', add(*((f'The {word} train leaves at 1987.', f'Der {wort} Zug fährt um 1978 ab.') for word, wort in zip(['first', 'second', 'third'] * 10, [f'{n}.' for n in range(30)], strict=False))), 30, 'train.en, line 501'),
    Fault('an empty corpus', 'empty', lambda c: c.__setitem__('test', ([], [])), 0, corpus='test', severity='error'),
    Fault('another language than configured', 'other_language', lambda c: None, 500, change=None),
]  # fmt: skip
