"""Parts of a corpus, nested: the first pairs of one shuffled order."""

from pathlib import Path

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import write_whole
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.data.bitext.sources import read_corpus


def write_subset(data: DataConfig, pairs: int, folder: Path) -> None:
    """Writes `pairs` pairs of the training corpus to the folder's train.LANGUAGE, unless just these are there."""
    files = [folder / f'train.{language}' for language in (data.source_language, data.target_language)]
    corpus = read_corpus(data.train, data)
    if len(corpus) < pairs:
        raise UserError(f'{data.train}: got {len(corpus):,} pairs, expected at least {pairs:,}')
    chosen = np.random.default_rng(0).permutation(len(corpus))[:pairs]
    folder.mkdir(parents=True, exist_ok=True)
    for file, lines in zip(files, (corpus.sources, corpus.targets), strict=True):
        text = ''.join(f'{lines[i]}\n' for i in chosen)
        if not file.exists() or file.read_bytes() != text.encode():
            write_whole(file, text)
