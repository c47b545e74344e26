"""A tiny text in which three words go with king and three with fish, and the config of vectors that learn it."""

from pathlib import Path
from typing import Any

import numpy as np

from flax_transformer.tasks.embeddings.config import (
    EmbeddingsConfig,
    EmbeddingsModelConfig,
    EmbeddingsTrainingConfig,
    TextConfig,
    UpdateConfig,
    WordsConfig,
)

ROYAL, WATERY = ('king', 'queen', 'crown', 'throne'), ('fish', 'river', 'boat', 'net')


def write_text(folder: Path, *, lines: int = 400, seed: int = 0) -> None:
    """Writes train.txt and validation.txt: lines of words of one group, among two words that go with both."""
    generator = np.random.default_rng(seed)
    for split, count in (('train', lines), ('validation', 20)):
        chosen = [
            generator.choice((ROYAL, WATERY)[generator.integers(2)] + ('the', 'of'), generator.integers(4, 12))
            for _ in range(count)
        ]
        (folder / f'{split}.txt').write_text(''.join(f'{" ".join(words)}\n' for words in chosen), encoding='utf-8')


def tiny_config(folder: Path, method: str = 'skip_gram', **training: Any) -> EmbeddingsConfig:
    settings = {'steps': 8, 'block_size': 8, 'blocks_per_step': 64, 'log_every': 4, 'evaluate_every': 8}
    validation = 'validation.txt' if method != 'glove' else ''
    return EmbeddingsConfig(
        model=EmbeddingsModelConfig(method=method, vocab_size=12, d_model=8, window=2),
        tokenizer=WordsConfig(min_count=2),
        data=TextConfig(train='train.txt', validation=validation, root=str(folder), sample=0.0),
        optimizer=UpdateConfig(learning_rate=0.1, schedule='constant'),
        training=EmbeddingsTrainingConfig(**settings | training),
    )
