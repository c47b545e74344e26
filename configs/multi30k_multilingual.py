"""Multi30k, one model that translates English to German, French and Czech, and German to English.

    flax-transformer train multi30k_multilingual --workdir runs/multi30k_multilingual
    flax-transformer translate runs/multi30k_multilingual --decoding.target-language fr < lines

The files are found in --data.root, else $FLAX_TRANSFORMER_DATA, else data/: multi30k/train.en.gz and so on
(github.com/multi30k/dataset, data/task1/raw). Each source begins with a tag that names the target language.

Hardware: two CPU cores (x86-64 with AVX-512), busy with much other work. Time: 22 minutes. Scores on
test_2016_flickr, greedy, cased detokenized sacreBLEU (nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0), one
run: 18.2 en-de, 22.5 en-fr, 12.3 en-cs, 21.1 de-en. The loss was still falling fast: a better model needs several
times the steps.
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
            mixture=tuple(
                CorpusConfig(f'{source}-{target}', TRAIN, VALIDATION, source_language=source, target_language=target)
                for source, target in directions
            ),
            language_tags=True,
            test='multi30k/test_2016_flickr.{lang}',
            source_length=64,
            target_length=64,
        ),
        optimizer=OptimizerConfig(schedule='linear', learning_rate=2e-3, warmup_steps=300, ema_decay=0.999),
        training=TrainingConfig(
            steps=3000, tokens_per_step=1280, log_every=100, evaluate_every=1000, checkpoint_every=1000
        ),
        decoding=DecodingConfig(alpha=1.0, max_source_tokens=64),
    )
