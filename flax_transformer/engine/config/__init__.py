"""The config sections of the engine."""

from dataclasses import dataclass

from flax_transformer.engine.config.loop import LoopConfig
from flax_transformer.engine.config.optimizer import OptimizerConfig
from flax_transformer.engine.config.parallel import ParallelConfig


@dataclass(frozen=True)
class EngineConfig:
    """How to train, for any task."""

    optimizer: OptimizerConfig
    training: LoopConfig
    parallel: ParallelConfig
    seed: int = 0  # of the initial parameters and of dropout
