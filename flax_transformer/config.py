"""Every section of a config, of all tasks, under one name: what users' config files import.

`Config` and `TrainingConfig` are translation's. Each section is defined in the room that it belongs to; inside the
package it is imported from there.
"""

from flax_transformer.audio.mel import FeatureConfig
from flax_transformer.data.audit.config import CheckConfig
from flax_transformer.data.bitext.config import CorpusConfig, DataConfig
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.engine.config import OptimizerConfig, ParallelConfig
from flax_transformer.rnn.config import RecurrentConfig
from flax_transformer.tasks.classification.config import (
    ClassificationConfig,
    ClassificationDataConfig,
    ClassificationTrainingConfig,
    ClassifierConfig,
    VocabularyConfig,
)
from flax_transformer.tasks.embeddings.config import (
    EmbeddingsConfig,
    EmbeddingsModelConfig,
    EmbeddingsTrainingConfig,
    TextConfig,
    UpdateConfig,
    WordsConfig,
)
from flax_transformer.tasks.speech.config import (
    PerturbationConfig,
    SpeechConfig,
    SpeechDataConfig,
    SpeechModelConfig,
    SpeechTrainingConfig,
    StringsConfig,
    UnitConfig,
)
from flax_transformer.tasks.translation.config import Config, TrainingConfig
from flax_transformer.tasks.trigger_word.config import (
    DetectorConfig,
    HitConfig,
    SceneConfig,
    TriggerWordConfig,
    TriggerWordDataConfig,
    TriggerWordTrainingConfig,
)
from flax_transformer.text.tokenizer import TokenizerConfig
from flax_transformer.transformer.config import TransformerConfig

__all__ = [name for name in dir() if name.endswith('Config')]
