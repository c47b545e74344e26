"""Tatoeba, everyday sentences, English to German: a model of 4.6 M parameters.

    flax-transformer train tatoeba_en_de --workdir runs/tatoeba

The files are found in --data.root, else $FLAX_TRANSFORMER_DATA, else data/: tatoeba_en_de/train.en.gz and so on.
`flax-transformer prepare tatoeba-en-de` makes them from Tatoeba's export (tatoeba.org, CC BY 2.0 FR), which changes
every week, so its sets are not those of RESULTS.md.

`evaluate` scores the test set with one reference a sentence. German has several words for "you", so scores against all
known translations are fairer:

    flax-transformer evaluate runs/tatoeba --data.test tatoeba_en_de/test.en,tatoeba_en_de/test.allrefs.de.tsv

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
            vocab_size=8000,
            d_model=192,
            num_heads=4,
            d_ff=768,
            num_encoder_layers=3,
            num_decoder_layers=3,
            dropout_rate=0.1,
        ),
        data=DataConfig(
            source_language='en',
            target_language='de',
            train='tatoeba_en_de/train.{lang}',
            validation='tatoeba_en_de/dev.{lang}',
            test='tatoeba_en_de/test.{lang}',
            source_length=64,
            target_length=64,
        ),
        optimizer=OptimizerConfig(
            name='muon', schedule='linear', learning_rate=3e-3, warmup_steps=400, weight_decay=0.1
        ),
        training=TrainingConfig(
            steps=4000, tokens_per_step=2048, log_every=100, evaluate_every=500, checkpoint_every=500
        ),
        decoding=DecodingConfig(beam_width=4, length_penalty='power', alpha=1.0, max_source_tokens=64),
    )
