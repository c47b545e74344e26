"""The config of a detector that learns to tell a rising melody from others in seconds; needs no recordings."""

from typing import Any

from flax_transformer.audio.mel import FeatureConfig
from flax_transformer.engine.config import OptimizerConfig
from flax_transformer.tasks.trigger_word.config import (
    DetectorConfig,
    HitConfig,
    SceneConfig,
    TriggerWordConfig,
    TriggerWordDataConfig,
    TriggerWordTrainingConfig,
)

RATE = 4000  # Hz


def tiny_config(*, model: dict[str, Any] | None = None, **training: Any) -> TriggerWordConfig:
    sizes = {'num_filters': 16, 'kernel': 4, 'stride': 2, 'hidden_size': 16, 'dropout_rate': 0.05}
    settings = {'steps': 120, 'batch_size': 8, 'log_every': 40, 'evaluate_every': 60, 'checkpoint_every': 60}
    return TriggerWordConfig(
        features=FeatureConfig(sample_rate=RATE, window_ms=40, hop_ms=20, num_mels=24),
        model=DetectorConfig(**sizes | (model or {})),
        hits=HitConfig(threshold=0.5),
        scenes=SceneConfig(seconds=4.0, levels=(-30.0, -15.0), background_levels=(-70.0, -50.0), gaps=(0.05, 0.6)),
        data=TriggerWordDataConfig(
            trigger='rising', train=('melodies:train',), validation=('melodies:validation',), test=('melodies:test',)
        ),
        optimizer=OptimizerConfig(schedule='constant', learning_rate=1e-2, warmup_steps=10, clip_norm=1.0),
        training=TriggerWordTrainingConfig(**settings | {'validation_scenes': 16} | training),
    )
