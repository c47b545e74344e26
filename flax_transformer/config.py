"""Every section of a config under one name: what users' config files import.

Each section stands in the room that it belongs to; inside the package it is imported from there.
"""

from flax_transformer.data.audit.config import CheckConfig
from flax_transformer.data.bitext.config import CorpusConfig, DataConfig
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.engine.config import OptimizerConfig, ParallelConfig
from flax_transformer.rnn.config import RecurrentConfig
from flax_transformer.tasks.translation.config import Config, TrainingConfig
from flax_transformer.text.tokenizer import TokenizerConfig
from flax_transformer.transformer.config import TransformerConfig

__all__ = [
    'CheckConfig',
    'Config',
    'CorpusConfig',
    'DataConfig',
    'DecodingConfig',
    'OptimizerConfig',
    'ParallelConfig',
    'RecurrentConfig',
    'TokenizerConfig',
    'TrainingConfig',
    'TransformerConfig',
]
