"""What the configs of all tasks have in common."""

from dataclasses import dataclass
from typing import ClassVar

from flax_transformer.common.fields import check, check_types, section
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


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """One experiment. A task's config inherits from it and adds sections; `task` is its name, in config.json too."""

    task: ClassVar[str]

    optimizer: OptimizerConfig = section(OptimizerConfig)
    training: LoopConfig = section(LoopConfig)
    parallel: ParallelConfig = section(ParallelConfig)
    seed: int = 0  # of the initial parameters, the order of the data and all that is random; below 2^31

    def __post_init__(self) -> None:
        check_types(self)
        check(0 <= self.seed < 2**31 - 1, f'seed={self.seed}: expected 0 to {2**31 - 2}')
        check(
            not self.training.patience or self.has_validation,
            f'training.patience={self.training.patience} has no effect without a validation set (data.validation)',
        )

    @property
    def has_validation(self) -> bool:
        """Whether training is validated; a section `data` may say so."""
        data = getattr(self, 'data', None)
        return bool(getattr(data, 'validation', True))

    @property
    def engine(self) -> EngineConfig:
        """The sections that the engine needs."""
        return EngineConfig(self.optimizer, self.training, self.parallel, self.seed)
