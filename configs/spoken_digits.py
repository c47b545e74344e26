"""Strings of spoken digits (Free Spoken Digit Dataset, 8 kHz): recurrent layers under CTC, a unit for each digit.

    flax-transformer train spoken_digits --workdir runs/digits
    flax-transformer evaluate runs/digits
    flax-transformer transcribe runs/digits recording.wav

The recordings are fsdd/index.tsv and fsdd/recordings.tar.xz below $FLAX_TRANSFORMER_DATA.
This table is not published: `flax-transformer new --task speech` writes a config for your own recordings.

Hardware: two CPU cores (x86-64 with AVX-512), busy. Time: 8.3 CPU minutes.
Score. Official split, mean of three seeds: 98.8 % of the 300 single digits of the test right; of 500 strings of 2 to 7
of them, 0.87 % of the words wrong. Trained without one speaker, 84.5 % of the 500 digits of that speaker right, the
mean over the six (`python benchmarks/speech.py FOLDER`).
"""

from flax_transformer.config import (
    FeatureConfig,
    OptimizerConfig,
    PerturbationConfig,
    SpeechConfig,
    SpeechDataConfig,
    SpeechModelConfig,
    SpeechTrainingConfig,
    StringsConfig,
    UnitConfig,
)


def get_config() -> SpeechConfig:
    return SpeechConfig(
        model=SpeechModelConfig(
            encoder='recurrent', vocab_size=11, strides=(2, 2, 1), channels=(16, 32, 64), num_layers=2
        ),
        features=FeatureConfig(sample_rate=8_000, num_mels=23),
        tokenizer=UnitConfig(algorithm='words'),
        data=SpeechDataConfig(
            train='fsdd/index.tsv?official_split=train#digit',
            test='fsdd/index.tsv?official_split=test#digit',
            max_seconds=5.0,
            num_lengths=4,
        ),
        strings=StringsConfig(fewest=1, most=7),
        perturbation=PerturbationConfig(speed=1.25, vocal_tract=1.2, color_db=6.0, lowest_snr_db=10.0, most_bands=5),
        optimizer=OptimizerConfig(
            name='adamw',
            schedule='cosine',
            learning_rate=2e-3,
            warmup_steps=100,
            weight_decay=1e-3,
            clip_norm=1.0,
        ),
        training=SpeechTrainingConfig(
            steps=3200, batch_size=32, log_every=100, evaluate_every=3200, checkpoint_every=800
        ),
    )
