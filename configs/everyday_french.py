"""French added to `everyday`, which translates English and German both ways: one model of 8.9 M parameters.

    zcat data/multi30k/train.fr.gz > french
    flax-transformer add-language everyday fr --text french --output runs/with_french
    flax-transformer train everyday_french --init-from runs/with_french --workdir runs/everyday_french
    flax-transformer translate runs/everyday_french --to fr < lines

`flax-transformer prepare multi30k` and `prepare tatoeba-en-de` download the corpora. Nearly two thirds of the
pairs rehearse the old directions, and the rate is low, so that hardly anything is lost.
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

OLD = 'tatoeba_en_de/train.{lang}.gz', 'tatoeba_en_de/dev.{lang}'
NEW = 'multi30k/train.{lang}.gz', 'multi30k/val.{lang}'


def get_config() -> Config:
    mixture = [
        CorpusConfig(f'{source}-{target}', *files, weight=weight, source_language=source, target_language=target)
        for source, target, files, weight in (('en', 'de', OLD, 1.8), ('de', 'en', OLD, 1.8), ('en', 'fr', NEW, 2))
    ]
    return Config(
        model=TransformerConfig(
            vocab_size=10_004,  # those of everyday, 2,000 new ones and the tag
            d_model=256,
            num_heads=4,
            d_ff=1024,
            num_encoder_layers=4,
            num_decoder_layers=3,
            dropout_rate=0.05,
        ),
        data=DataConfig(
            source_language='en',
            target_language='de',
            mixture=tuple(mixture),
            language_tags=True,
            test='multi30k/test_2016_flickr.{lang}',
            source_length=64,
            target_length=64,
        ),
        optimizer=OptimizerConfig(name='muon', schedule='linear', learning_rate=3e-4, warmup_steps=50),
        training=TrainingConfig(
            steps=600, tokens_per_step=2048, log_every=20, evaluate_every=200, checkpoint_every=100
        ),
        decoding=DecodingConfig(
            beam_width=4, length_penalty='power', alpha=1.0, max_source_tokens=64, split_sentences=True
        ),
    )
