"""Sentences of film reviews, positive or negative (Pang and Lee 2005): averaged embeddings that start from naive Bayes.

    flax-transformer train rt_polarity --workdir runs/rt_polarity

The sentences are rt_polarity/{train,val,test}.tsv below $FLAX_TRANSFORMER_DATA, `label<TAB>text`, 1 = positive.
"""

from flax_transformer.engine.config.optimizer import OptimizerConfig
from flax_transformer.tasks.classification.config import (
    ClassificationDataConfig,
    ClassifierConfig,
    Config,
    TrainingConfig,
)


def get_config() -> Config:
    epoch = 134  # steps
    return Config(
        model=ClassifierConfig(
            d_model=32,
            num_maps=50,
            cell='gru',
            hidden_size=32,
            num_heads=2,
            d_ff=64,
            dropout_rate=0.3,
        ),
        data=ClassificationDataConfig(
            train='rt_polarity/train.tsv', validation='rt_polarity/val.tsv', test='rt_polarity/test.tsv'
        ),
        optimizer=OptimizerConfig(schedule='constant', learning_rate=2e-3, warmup_steps=0),
        training=TrainingConfig(
            steps=5 * epoch,
            batch_size=64,
            log_every=epoch,
            evaluate_every=epoch // 2,
            checkpoint_every=epoch // 2,
            start='naive_bayes',
        ),
    )
