"""A tiny corpus of labeled texts, and the config of a classifier that learns it in a second."""

from pathlib import Path
from typing import Any

import numpy as np

from flax_transformer.engine.config import OptimizerConfig
from flax_transformer.tasks.classification.config import (
    ClassificationConfig,
    ClassificationDataConfig,
    ClassificationTrainingConfig,
    ClassifierConfig,
)

GOOD, BAD, OTHER = ('good', 'fine', 'lovely'), ('bad', 'dull', 'poor'), ('a', 'the', 'film', 'plot', 'is', 'was', ',')
SIZES = {'train': 240, 'validation': 40, 'test': 40}


def write_texts(folder: Path, *, seed: int = 0) -> None:
    """Writes train.tsv, validation.tsv and test.tsv: texts of seven common words and one or two that give the label."""
    generator = np.random.default_rng(seed)
    for split, count in SIZES.items():
        lines = []
        for _ in range(count):
            label, words = (('pos', GOOD), ('neg', BAD))[generator.integers(2)]
            known = generator.choice(words, generator.integers(1, 3)).tolist()
            text = generator.permutation(known + generator.choice(OTHER, generator.integers(2, 8)).tolist())
            lines.append(f'{label}\t{" ".join(text)}\n')
        (folder / f'{split}.tsv').write_text(''.join(lines), encoding='utf-8')


def tiny_config(folder: Path, *, model: dict[str, Any] | None = None, **training: Any) -> ClassificationConfig:
    sizes = {'vocab_size': 20, 'd_model': 8, 'encoder_dropout_rate': 0.0}
    settings = {'steps': 60, 'batch_size': 24, 'log_every': 20, 'evaluate_every': 30, 'checkpoint_every': 30}
    return ClassificationConfig(
        model=ClassifierConfig(**sizes | (model or {})),
        data=ClassificationDataConfig(
            train='train.tsv', validation='validation.tsv', test='test.tsv', root=str(folder), max_length=16
        ),
        optimizer=OptimizerConfig(schedule='constant', learning_rate=0.05, warmup_steps=0),
        training=ClassificationTrainingConfig(**settings | training),
    )
