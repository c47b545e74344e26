"""Word vectors of Wikipedia for Schools by CBOW with negative sampling (Mikolov et al. 2013).

    flax-transformer train cbow --workdir runs/cbow

The text is schools_wiki/ below $FLAX_TRANSFORMER_DATA. It is not published: `flax-transformer new --task word-vectors`
writes a config for your own. Time and hardware: RESULTS.md.

Score, mean of three seeds: 37.6 % of the 13,006 analogies (of 19,544) that are among its 30,000 most frequent words;
Spearman's correlation 0.654 on 352 pairs of WordSim-353 and 0.295 on 994 of SimLex-999.
"""

from flax_transformer.config import (
    EmbeddingsConfig,
    EmbeddingsModelConfig,
    EmbeddingsTrainingConfig,
    TextConfig,
    UpdateConfig,
    WordsConfig,
)


def get_config() -> EmbeddingsConfig:
    return EmbeddingsConfig(
        model=EmbeddingsModelConfig(method='cbow', vocab_size=60_000),
        tokenizer=WordsConfig(pattern='[a-z]+', lower_case=True),
        data=TextConfig(train='schools_wiki/train.txt', validation='schools_wiki/valid.txt'),
        optimizer=UpdateConfig(learning_rate=0.025),
        training=EmbeddingsTrainingConfig(
            steps=1113, log_every=20, evaluate_every=279, checkpoint_every=279
        ),  # ten epochs
    )
