"""Multi30k, English to German."""

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
            dropout_rate=0.15,
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
        optimizer=OptimizerConfig(schedule='linear', learning_rate=2e-3, warmup_steps=800, ema_decay=0.999),
        training=TrainingConfig(
            steps=8000, tokens_per_step=1280, log_every=100, evaluate_every=1000, checkpoint_every=1000
        ),
        decoding=DecodingConfig(alpha=1.0, max_source_tokens=64),
    )
