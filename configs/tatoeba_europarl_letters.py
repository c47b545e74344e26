"""Letters, notices and a model's own translations added to tatoeba_europarl: the last steps of the model `everyday`.

    flax-transformer train tatoeba_europarl_letters --init-from runs/tatoeba_europarl --workdir runs/second \
        --training.steps 3038 --optimizer.learning-rate 1e-3
    flax-transformer train tatoeba_europarl_letters --init-from runs/mean --workdir runs/letters
    flax-transformer average runs/letters runs/eight_bits --last 1 --int8
    flax-transformer train tatoeba_europarl_letters --init-from runs/eight_bits --workdir runs/more_letters \
        --training.steps 450 --training.int8-share 0.25 --training.cpu-dtype float32 \
        --optimizer.learning-rate 2.5e-4 --optimizer.warmup-steps 40
    flax-transformer average runs/more_letters runs/everyday --last 1 --int8

`python benchmarks/everyday.py FOLDER` runs these commands, and those of the configs before, one after another.

`translated/CORPUS_PAIR.LANGUAGE`, below $FLAX_TRANSFORMER_DATA, are translations by tatoeba_europarl: of two thirds of
Tatoeba's sentences and nearly half of the debates', without those whose chrF to the reference is below 30 (debates: 25)
or that copy the source. `runs/mean` is the mean of the parameters of tatoeba_europarl and of `second`, for which the
weights of Tatoeba's files were 5 and 3.5, of the debates' translations 0.25, and of letters 0.12; `average` takes
checkpoints of one run, so that one of them was copied into the other's folder. `letters.en` and `letters.de` are 677
pairs of our own: greetings, names, sentences of business letters, signs, notices of an app; CC0. Only the last training
had those from the 366th on, when closings ended with a comma in German, too. Its weights of Tatoeba were 9.5 en-de and
10 de-en, of debates 1.2, of letters 0.5, without translations.
"""

from pathlib import Path

from flax_transformer.config import (
    Config,
    CorpusConfig,
    DataConfig,
    DecodingConfig,
    OptimizerConfig,
    TrainingConfig,
    TransformerConfig,
)

LETTERS = str(Path(__file__).with_name('letters.{lang}'))


def get_config() -> Config:
    mixture = []
    for source, target in (('en', 'de'), ('de', 'en')):
        languages = {'source_language': source, 'target_language': target}
        for name, weight, weight_translated in (('tatoeba', 6, 4), ('europarl', 0.85, 0.3)):
            files = f'{name}_en_de/train.{{lang}}.gz', f'{name}_en_de/dev.{{lang}}'
            translated = f'translated/{name}_{source}{target}.{{lang}}'
            mixture += [
                CorpusConfig(f'{name}-{source}-{target}', *files, weight=weight, **languages),
                CorpusConfig(
                    f'{name}-{source}-{target}-translated', translated, '', weight=weight_translated, **languages
                ),
            ]
        mixture.append(CorpusConfig(f'letters-{source}-{target}', LETTERS, '', weight=0.1, **languages))
    return Config(
        model=TransformerConfig(
            vocab_size=8003,
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
            robust=0.45,
            terms=0.3,
            test='tatoeba_en_de/test.{lang}',
            source_length=128,
            target_length=128,
        ),
        optimizer=OptimizerConfig(
            name='muon', schedule='linear', learning_rate=7.0e-4, warmup_steps=100, weight_decay=0.1
        ),
        training=TrainingConfig(
            steps=2154,
            tokens_per_step=4096,
            log_every=100,
            evaluate_every=1000,
            checkpoint_every=200,
            cpu_dtype='bfloat16',
            int8_share=0.12,
        ),
        decoding=DecodingConfig(
            beam_width=4,
            length_penalty='power',
            alpha=1.0,
            max_source_tokens=128,
            weights='auto',
            noisy_channel=('en',),
            split_sentences=True,
        ),
    )
