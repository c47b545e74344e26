"""On which devices training runs."""

from dataclasses import dataclass
from typing import Literal

from flax_transformer.checks import check, check_types


@dataclass(frozen=True)
class ParallelConfig:
    """On which devices, and how."""

    strategy: Literal['pmap', 'mesh'] = 'pmap'  # pmap: data parallel; mesh: jit over a mesh with a data axis
    num_devices: int = 0  # 0: every accelerator, or one CPU; CPU devices are simulated, as many as asked for

    def __post_init__(self) -> None:
        check_types(self)
        check(self.num_devices >= 0, f'num_devices={self.num_devices}: expected at least 0')
