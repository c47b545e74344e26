"""A corpus by its name: aligned text files, TensorFlow Datasets, or number words."""

import os
from pathlib import Path

from flax_transformer.config import DataConfig
from flax_transformer.data.number_words import number_words
from flax_transformer.data.pairs import Pairs
from flax_transformer.data.text_files import read_text_files
from flax_transformer.data.tfds_source import read_tfds
from flax_transformer.errors import UserError

ROOT_VARIABLE = 'FLAX_TRANSFORMER_DATA'


def data_root(config: DataConfig) -> Path:
    """The folder where relative paths start: data.root, else $FLAX_TRANSFORMER_DATA, else data/."""
    return Path(config.root or os.environ.get(ROOT_VARIABLE) or 'data').expanduser()


def read_corpus(name: str, config: DataConfig) -> Pairs:
    """The sentence pairs of a corpus; DataConfig lists the forms of a name. Raises UserError where it cannot."""
    if name.startswith('number_words:'):
        return number_words(name.removeprefix('number_words:'), config)
    if name.startswith('tfds:'):
        pairs = read_tfds(name, config, data_root(config))
        if not len(pairs):
            raise UserError(f'corpus {name!r} is empty; expected at least one sentence pair')
        return pairs
    if '{lang}' in name:
        paths = [name.replace('{lang}', language) for language in (config.source_language, config.target_language)]
    elif name.count(',') == 1:
        paths = name.split(',')
    else:
        raise UserError(
            f'corpus {name!r}: expected a path with {{lang}} in it, two paths with a comma between them, '
            'tfds:NAME/CONFIG:SPLIT, or number_words:train'
        )
    files = [data_root(config) / path.strip() for path in paths]
    try:
        return read_text_files(*files)
    except UserError as error:
        if all(file.is_file() for file in files):
            raise
        hint = 'relative paths start at --data.root, else $FLAX_TRANSFORMER_DATA, else data/'
        raise UserError(f'{error}; {hint}') from None
