"""Multi30k, English to German: 29,000 image captions, a model of 1.9 M parameters.

    flax-transformer train multi30k_en_de --workdir runs/multi30k

The files are found in --data.root, else $FLAX_TRANSFORMER_DATA, else data/: multi30k/train.en.gz and so on
(github.com/multi30k/dataset, data/task1/raw); `flax-transformer prepare multi30k` downloads them.
Other directions among English, German, French and Czech are two options, such as

    flax-transformer train multi30k_en_de --data.source-language de --data.target-language en --workdir runs/de_en

Scores, time and hardware: RESULTS.md.
"""

from flax_transformer.config import (
    Config,
    DataConfig,
    DecodingConfig,
    OptimizerConfig,
    TrainingConfig,
    TransformerConfig,
)


def get_config() -> Config:
    return Config(
        model=TransformerConfig(
            vocab_size=4000,
            d_model=128,
            num_heads=4,
            d_ff=512,
            num_encoder_layers=3,
            num_decoder_layers=3,
            dropout_rate=0.2,
        ),
        data=DataConfig(
            source_language='en',
            target_language='de',
            train='multi30k/train.{lang}.gz',
            validation='multi30k/val.{lang}',
            test='multi30k/test_2016_flickr.{lang}',
            source_length=64,
            target_length=64,
        ),
        optimizer=OptimizerConfig(
            name='muon', schedule='linear', learning_rate=5e-3, warmup_steps=400, weight_decay=0.1
        ),
        training=TrainingConfig(
            steps=5000, tokens_per_step=2048, log_every=100, evaluate_every=1000, checkpoint_every=500
        ),
        decoding=DecodingConfig(alpha=1.0, max_source_tokens=64),
    )
