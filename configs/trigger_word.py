"""A word in a stream: "amelia", among other words, spoken digits and background noise.

    flax-transformer train trigger_word --workdir runs/amelia

The recordings are keyword/ (150 of "amelia") and fsdd/ (spoken digits, as further negatives) below
$FLAX_TRANSFORMER_DATA, both at 8 kHz. They are not published: `flax-transformer new --task trigger-word` writes a
config for your own recordings.

Hardware: two CPU cores (x86-64 with AVX-512), busy. Time: 2.2 to 2.3 CPU minutes a run.
Score: 0 of 22 test recordings of the word missed (95 % interval 0 to 15.4 %) and no false accept in 195 seconds of
other words, digits and background (0 to 68 an hour), with each of the seeds 0, 1 and 2.
"""

from flax_transformer.config import (
    FeatureConfig,
    OptimizerConfig,
    TriggerWordConfig,
    TriggerWordDataConfig,
    TriggerWordTrainingConfig,
)

_NOISE = 'keyword/index.tsv?label=background&file{}{}#label'
_VALIDATION = 'background/bg_noise4.wav,background/bg_noise5.wav'
_TEST = 'background/bg_noise2.wav,background/bg_noise3.wav,background/bg_noise7.wav'


def get_config() -> TriggerWordConfig:
    return TriggerWordConfig(
        features=FeatureConfig(sample_rate=8000),
        data=TriggerWordDataConfig(
            trigger='amelia',
            train=(
                'keyword/index.tsv?split=train#label',
                'fsdd/index.tsv?official_split=train&index!=5,6,7,8,9#digit',
            ),
            train_background=(_NOISE.format('!=', f'{_VALIDATION},{_TEST}'),),
            validation=('keyword/index.tsv?split=dev#label', 'fsdd/index.tsv?index=5,6,7,8,9#digit'),
            validation_background=(_NOISE.format('=', _VALIDATION),),
            test=('keyword/index.tsv?split=test#label', 'fsdd/index.tsv?official_split=test#digit'),
            test_background=(_NOISE.format('=', _TEST),),
        ),
        optimizer=OptimizerConfig(
            name='adamw',
            schedule='cosine',
            learning_rate=3e-3,
            warmup_steps=50,
            beta2=0.999,
            epsilon=1e-8,
            weight_decay=1e-3,
            clip_norm=1.0,
        ),
        training=TriggerWordTrainingConfig(
            steps=2000,
            log_every=100,
            evaluate_every=500,
            checkpoint_every=500,
        ),
    )
