"""Numbers in words, English to German: the quickstart, a model of 1.0 M parameters.

    flax-transformer train number_words --workdir runs/number_words

Nothing is downloaded: num2words spells the numbers. Any two of its languages will do (--data.source-language fr).

Hardware: two CPU cores (x86-64 with AVX-512). Time: 1:29 minutes on a quiet machine, 2:42 to 3:44 with some six
other busy processes.
Score: 1,000 of 1,000 held-out numbers below one million exactly right, greedy, with each of the seeds 0, 1 and 2;
perplexity 1.07 per target token (label smoothing keeps it above 1). "zero", one example in 60,000, is not learned.
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
            steps=600, tokens_per_step=2048, log_every=50, evaluate_every=100, checkpoint_every=200
        ),
        decoding=DecodingConfig(beam_width=1, max_source_tokens=64),
    )
