"""Word vectors of Wikipedia for Schools by GloVe (Pennington et al. 2014).

    flax-transformer train glove --workdir runs/glove

Frequent words are left out before pairs are counted (data.sample), which the paper does not do.

The text is schools_wiki/ below $FLAX_TRANSFORMER_DATA. It is not published: `flax-transformer new --task word-vectors`
writes a config for your own. Time and hardware: RESULTS.md.

Score of seed 1: 29.3 % of the 13,006 analogies (of 19,544) that are among its 30,000 most frequent words; Spearman's
correlation 0.595 on 352 pairs of WordSim-353 and 0.254 on 994 of SimLex-999.
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
        model=EmbeddingsModelConfig(method='glove', vocab_size=60_000, window=10, x_max=10.0),
        tokenizer=WordsConfig(pattern='[a-z]+', lower_case=True),
        data=TextConfig(train='schools_wiki/train.txt'),
        optimizer=UpdateConfig(learning_rate=0.1, schedule='constant'),
        training=EmbeddingsTrainingConfig(steps=1100, block_size=256, log_every=20, checkpoint_every=275),
    )
