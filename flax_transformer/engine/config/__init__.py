"""The config sections of the engine."""

from flax_transformer.engine.config.loop import LoopConfig
from flax_transformer.engine.config.optimizer import OptimizerConfig
from flax_transformer.engine.config.parallel import ParallelConfig
from flax_transformer.engine.config.task import EngineConfig, TaskConfig

__all__ = ['EngineConfig', 'LoopConfig', 'OptimizerConfig', 'ParallelConfig', 'TaskConfig']
