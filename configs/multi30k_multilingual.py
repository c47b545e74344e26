"""Multi30k, a model of 4.6 M parameters that translates English to German, French and Czech, and German to English.

    flax-transformer train multi30k_multilingual --workdir runs/multi30k_multilingual
    flax-transformer translate runs/multi30k_multilingual --decoding.target-language fr < lines

The files are found in --data.root, else $FLAX_TRANSFORMER_DATA, else data/: multi30k/train.en.gz and so on
(github.com/multi30k/dataset, data/task1/raw); `flax-transformer prepare multi30k` downloads them. Each source
begins with a tag that names the target language.

Scores, time and hardware: RESULTS.md.
"""

from flax_transformer.config import (
    Config,
    CorpusConfig,
    DataConfig,
    DecodingConfig,
    OptimizerConfig,
    TrainingConfig,
    TransformerConfig,
)

TRAIN, VALIDATION = 'multi30k/train.{lang}.gz', 'multi30k/val.{lang}'


def get_config() -> Config:
    directions = [('en', 'de'), ('en', 'fr'), ('en', 'cs'), ('de', 'en')]
    return Config(
        model=TransformerConfig(
            vocab_size=8000,
            d_model=192,
            num_heads=4,
            d_ff=768,
            num_encoder_layers=3,
            num_decoder_layers=3,
            dropout_rate=0.15,
        ),
        data=DataConfig(
            source_language='en',
            target_language='de',
            mixture=tuple(
                CorpusConfig(f'{source}-{target}', TRAIN, VALIDATION, source_language=source, target_language=target)
                for source, target in directions
            ),
            language_tags=True,
            test='multi30k/test_2016_flickr.{lang}',
            source_length=64,
            target_length=64,
        ),
        optimizer=OptimizerConfig(
            name='muon', schedule='linear', learning_rate=5e-3, warmup_steps=500, weight_decay=0.1
        ),
        training=TrainingConfig(
            steps=10_000, tokens_per_step=2048, log_every=100, evaluate_every=1000, checkpoint_every=500
        ),
        decoding=DecodingConfig(alpha=1.0, max_source_tokens=64),
    )
