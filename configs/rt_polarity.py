"""Sentences of film reviews, positive or negative (Pang and Lee 2005).

The model averages embeddings of words and pairs of words; they start from naive Bayes.

    flax-transformer train rt_polarity --workdir runs/rt_polarity

The sentences are rt_polarity/{train,val,test}.tsv below $FLAX_TRANSFORMER_DATA, `label<TAB>text`, 1 = positive. This
split is not published: `flax-transformer new --task classification` writes a config for your own texts.

Hardware: two CPU cores (x86-64 with AVX-512), busy. Time: 0.24 CPU minutes a run.
Score: 78.71 % right, mean of ten folds over all 10,662 sentences (standard deviation over folds 0.43), one seed,
trained on 81 % of them; 9 % choose the checkpoint (`python benchmarks/rt_polarity.py FOLDER rt_polarity`).
"""

from flax_transformer.config import (
    ClassificationConfig,
    ClassificationDataConfig,
    ClassificationTrainingConfig,
    ClassifierConfig,
    OptimizerConfig,
    VocabularyConfig,
)


def get_config() -> ClassificationConfig:
    return ClassificationConfig(
        model=ClassifierConfig(
            vocab_size=150_000,
            d_model=16,
            dropout_rate=0.3,
        ),
        # The sentences have their punctuation apart already; words_and_punctuation, the default, reads "film." as well.
        tokenizer=VocabularyConfig(algorithm='words', ngrams=2),
        data=ClassificationDataConfig(
            train='rt_polarity/train.tsv',
            validation='rt_polarity/val.tsv',
            test='rt_polarity/test.tsv',
            max_length=128,
        ),
        optimizer=OptimizerConfig(schedule='constant', learning_rate=5e-3, warmup_steps=0),
        training=ClassificationTrainingConfig(
            steps=540,  # four epochs
            batch_size=64,
            log_every=90,
            evaluate_every=90,
            checkpoint_every=90,
            start='naive_bayes',
        ),
    )
