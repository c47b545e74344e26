"""Numbers in words, English to German: the quickstart."""

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
            vocab_size=400,
            d_model=128,
            num_heads=4,
            d_ff=512,
            num_encoder_layers=2,
            num_decoder_layers=2,
        ),
        data=DataConfig(source_length=64, target_length=64),
        optimizer=OptimizerConfig(schedule='linear', learning_rate=2e-3, warmup_steps=200, ema_decay=0.99),
        training=TrainingConfig(
            steps=1500, tokens_per_step=2048, log_every=50, evaluate_every=500, checkpoint_every=500
        ),
        decoding=DecodingConfig(beam_width=1, max_source_tokens=64),
    )
