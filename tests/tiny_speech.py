"""The config of a model that learns to write down touch-tones in a few seconds, without any file."""

from typing import Any

from flax_transformer.audio.mel import FeatureConfig
from flax_transformer.engine.config import OptimizerConfig
from flax_transformer.tasks.speech.config import (
    PerturbationConfig,
    SpeechConfig,
    SpeechDataConfig,
    SpeechModelConfig,
    SpeechTrainingConfig,
    StringsConfig,
    UnitConfig,
)


def tiny_config(*, model: dict[str, Any] | None = None, **training: Any) -> SpeechConfig:
    sizes = {'encoder': 'recurrent', 'vocab_size': 20, 'channels': (4, 8), 'd_model': 32, 'num_layers': 1}
    settings = {'steps': 120, 'batch_size': 32, 'log_every': 40, 'evaluate_every': 60, 'checkpoint_every': 100}
    return SpeechConfig(
        model=SpeechModelConfig(**sizes | {'hidden_size': 32, 'dropout_rate': 0.0} | (model or {})),
        features=FeatureConfig(sample_rate=8_000, num_mels=32),
        tokenizer=UnitConfig(algorithm='words'),
        data=SpeechDataConfig(
            train='tones:train', validation='tones:validation', test='tones:test', max_seconds=0.8, num_lengths=1
        ),
        strings=StringsConfig(most=2, validation=32, most_gap_ms=100),
        perturbation=PerturbationConfig(speed=1.02, vocal_tract=1.02, color_db=1.0, band_masks=1, most_bands=2),
        optimizer=OptimizerConfig(schedule='constant', learning_rate=0.015, warmup_steps=0, ema_decay=0.9),
        training=SpeechTrainingConfig(**settings | training),
    )
