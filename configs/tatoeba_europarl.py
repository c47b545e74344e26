"""German and English in both directions, everyday sentences and debates: how the model `everyday` began.

    flax-transformer train tatoeba_both --workdir runs/tatoeba_both
    python -c "from flax_transformer.tasks.translation.vocabulary_change import add_marks; \
add_marks('runs/tatoeba_both', 'runs/marked')"
    flax-transformer train tatoeba_europarl --init-from runs/marked --workdir runs/first \
        --training.steps 4220 --optimizer.learning-rate 2.5e-3 --data.robust 0.4
    flax-transformer train tatoeba_europarl --init-from runs/first --workdir runs/tatoeba_europarl

The files are those of tatoeba_en_de and of europarl_en_de, 13,407 pairs of the European Parliament's debates of seven
days in 2000, which NLTK distributes as `europarl_raw` without an alignment; any other pairs can take their place. A
tenth of the sentences drawn are theirs. Some have names, codes, capitals and signs as people type them (`data.robust`),
some carry the translations of their words (`data.terms`), as a glossary writes them.

The model that comes with the package began from the eight bits of tatoeba_both, and went on with
`tatoeba_europarl_letters`. Scores and time: its card.
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

TATOEBA = 'tatoeba_en_de/train.{lang}.gz', 'tatoeba_en_de/dev.{lang}'
EUROPARL = 'europarl_en_de/train.{lang}.gz', 'europarl_en_de/dev.{lang}'


def get_config() -> Config:
    mixture = [
        CorpusConfig(f'{name}-{source}-{target}', *files, weight=weight, source_language=source, target_language=target)
        for name, files, weight in (('tatoeba', TATOEBA, 9), ('europarl', EUROPARL, 1))
        for source, target in (('en', 'de'), ('de', 'en'))
    ]
    return Config(
        model=TransformerConfig(
            vocab_size=8003,  # 8,000 of tatoeba_both, and three marks of terms
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
            mixture=tuple(mixture),
            language_tags=True,
            robust=0.45,
            terms=0.3,
            test='tatoeba_en_de/test.{lang}',
            source_length=128,
            target_length=128,
        ),
        optimizer=OptimizerConfig(
            name='muon', schedule='linear', learning_rate=1.5e-3, warmup_steps=100, weight_decay=0.1
        ),
        training=TrainingConfig(
            steps=3771,
            tokens_per_step=4096,
            log_every=100,
            evaluate_every=1000,
            checkpoint_every=200,
            cpu_dtype='bfloat16',
        ),
        decoding=DecodingConfig(
            beam_width=4, length_penalty='power', alpha=1.0, max_source_tokens=128, split_sentences=True
        ),
    )
