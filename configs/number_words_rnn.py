"""Numbers in words, English to German: `number_words` with an attention RNN of 0.7 M parameters.

    flax-transformer train number_words_rnn --workdir runs/number_words_rnn

Hardware: two CPU cores (x86-64 with AVX-512), shared with other work. Time: 174 seconds of CPU time.
Score: 1,000 of 1,000 held-out numbers below one million exactly right, greedy; perplexity 1.09 per target token (label
smoothing keeps it above 1). One run, seed 0.
"""

from flax_transformer.config import (
    Config,
    DataConfig,
    DecodingConfig,
    OptimizerConfig,
    RecurrentConfig,
    TrainingConfig,
)


def get_config() -> Config:
    return Config(
        model=RecurrentConfig(vocab_size=400, d_model=128, hidden_size=128, dropout_rate=0.1),
        data=DataConfig(source_length=64, target_length=64),
        optimizer=OptimizerConfig(
            schedule='linear', learning_rate=3e-3, warmup_steps=100, clip_norm=1.0, ema_decay=0.99
        ),
        training=TrainingConfig(
            steps=600, tokens_per_step=2048, log_every=50, evaluate_every=100, checkpoint_every=200
        ),
        decoding=DecodingConfig(beam_width=1, max_source_tokens=64),
    )
