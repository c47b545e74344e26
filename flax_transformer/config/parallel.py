"""On which devices training runs."""

from dataclasses import dataclass
from typing import Literal

from flax_transformer.checks import check, check_types


@dataclass(frozen=True)
class ParallelConfig:
    """On which devices, and how."""

    strategy: Literal['pmap', 'mesh'] = 'pmap'  # pmap: data parallel; mesh: jit over a mesh with a data axis
    num_devices: int = 0  # 0: every accelerator, or one CPU; CPU devices are simulated, as many as asked for
    loss_chunk: int = 0  # target slots whose logits a device holds at once; 0: 1,024, or as many as 32 MB hold

    def __post_init__(self) -> None:
        check_types(self)
        for name in ('num_devices', 'loss_chunk'):
            check(getattr(self, name) >= 0, f'{name}={getattr(self, name)}: expected at least 0')
