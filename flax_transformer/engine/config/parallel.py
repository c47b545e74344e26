"""Which devices to train on, and how."""

from dataclasses import dataclass
from typing import Literal

from flax_transformer.common.fields import check, check_types, setting


@dataclass(frozen=True)
class ParallelConfig:
    """Which devices to train on, and how; changes nothing but rounding (and, under pmap, dropout).

    A mesh has data * fsdp * tensor devices: see sharding.py.
    """

    # pmap: data parallel; mesh: jit over a mesh of three axes.
    strategy: Literal['pmap', 'mesh'] = setting('pmap', 'resumable')
    num_devices: int = setting(0, 'resumable')  # 0: all accelerators, or one CPU; CPU devices are simulated
    # mesh: devices that split only the rows of the batch; 0: as many as the other axes leave.
    data: int = setting(0, 'resumable')
    fsdp: int = setting(1, 'resumable')  # mesh: devices that split rows, parameters and moments
    tensor: int = setting(1, 'resumable')  # mesh: devices that split heads, inner units and vocabulary
    # Target slots per pass; a larger share of a batch takes several passes; 0: no limit.
    max_tokens_per_device: int = setting(0, 'resumable')
    # layers: keep only each layer's input and recompute the rest.
    remat: Literal['none', 'layers'] = setting('none', 'resumable')
    # Target slots whose logits a device holds at once; 0: 1,024, or as many as 32 MB hold (on CPUs 256, or 8 MB).
    loss_chunk: int = setting(0, 'resumable')
    # Processes that train together, as on several hosts; 0: ask SLURM, Open MPI or the TPU host.
    num_processes: int = setting(1, 'resumable')
    coordinator: str = setting('', 'resumable')  # HOST:PORT of process 0; '': ask the same
    process_id: int | None = setting(None, 'resumable')  # which process this is, from 0; None: ask the same
    # Seconds to wait for another process to start, or for a sign of life.
    process_timeout: int = setting(60, 'resumable')

    def __post_init__(self) -> None:
        check_types(self)
        for name, least in (
            ('num_devices', 0),
            ('data', 0),
            ('fsdp', 1),
            ('tensor', 1),
            ('max_tokens_per_device', 0),
            ('loss_chunk', 0),
            ('num_processes', 0),
            ('process_timeout', 1),
        ):
            check(getattr(self, name) >= least, f'{name}={getattr(self, name)}: expected at least {least}')
        for name, default in (('data', 0), ('fsdp', 1), ('tensor', 1)):
            value = getattr(self, name)
            check(
                self.strategy == 'mesh' or value == default,
                f"{name}={value} has no effect with strategy='pmap'; use mesh",
            )
        last = self.num_processes - 1 if self.num_processes else None
        check(
            self.process_id is None or (self.process_id >= 0 and (last is None or self.process_id <= last)),
            f'process_id={self.process_id}: expected 0 to num_processes - 1' + ('' if last is None else f' = {last}'),
        )
        host, _, port = self.coordinator.rpartition(':')
        check(
            not self.coordinator or (host != '' and port.isdecimal()),
            f'coordinator={self.coordinator!r}: expected HOST:PORT, such as node0:9911',
        )
        check(
            self.num_processes != 1 or not self.coordinator,
            f'coordinator={self.coordinator!r} has no effect with num_processes=1',
        )
        group = self.fsdp * self.tensor
        check(
            self.num_devices == 0 or (self.num_devices % group == 0 and self.data in (0, self.num_devices // group)),
            f'num_devices={self.num_devices}: expected data * fsdp * tensor = {group * max(self.data, 1)}'
            + ('' if self.data else ' or a multiple'),
        )

    @property
    def least_devices(self) -> int:
        """num_devices, or if that is 0, as many as the mesh needs."""
        return self.num_devices or max(self.data, 1) * self.fsdp * self.tensor
