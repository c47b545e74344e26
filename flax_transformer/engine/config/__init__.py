"""The sections of a config that the engine owns."""

from dataclasses import dataclass

from flax_transformer.engine.config.loop import LoopConfig
from flax_transformer.engine.config.optimizer import OptimizerConfig
from flax_transformer.engine.config.parallel import ParallelConfig


@dataclass(frozen=True)
class EngineConfig:
    """How anything is trained."""

    optimizer: OptimizerConfig
    training: LoopConfig
    parallel: ParallelConfig
    seed: int = 0  # of the initial parameters and of dropout
