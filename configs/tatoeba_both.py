"""Tatoeba, everyday sentences, German and English in both directions: one model of 8.4 M parameters.

    flax-transformer train tatoeba_both --workdir runs/tatoeba_both
    flax-transformer translate runs/tatoeba_both --decoding.target-language en < lines

The files are those of tatoeba_en_de. Each source begins with a tag that names the target language.

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

TRAIN, VALIDATION = 'tatoeba_en_de/train.{lang}.gz', 'tatoeba_en_de/dev.{lang}'


def get_config() -> Config:
    return Config(
        model=TransformerConfig(
            vocab_size=8000,
            d_model=256,
            num_heads=4,
            d_ff=1024,
            num_encoder_layers=4,
            num_decoder_layers=3,
            dropout_rate=0.1,
        ),
        data=DataConfig(
            source_language='en',
            target_language='de',
            mixture=tuple(
                CorpusConfig(f'{source}-{target}', TRAIN, VALIDATION, source_language=source, target_language=target)
                for source, target in (('en', 'de'), ('de', 'en'))
            ),
            language_tags=True,
            test='tatoeba_en_de/test.{lang}',
            source_length=64,
            target_length=64,
        ),
        optimizer=OptimizerConfig(
            name='muon', schedule='linear', learning_rate=3e-3, warmup_steps=400, weight_decay=0.1
        ),
        training=TrainingConfig(
            steps=10_000, tokens_per_step=2048, log_every=100, evaluate_every=1000, checkpoint_every=500
        ),
        decoding=DecodingConfig(
            beam_width=4, length_penalty='power', alpha=1.0, max_source_tokens=64, split_sentences=True
        ),
    )
