"""What a training step costs on given devices: the real step, compiled for them but never run.

Memory is what the compiler reserves. Times are estimates from data sheets.
"""

import math
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.engine.config import ParallelConfig
from flax_transformer.engine.devices.sharding import bytes_per_device
from flax_transformer.engine.task import count_parameters
from flax_transformer.engine.trainer import Trainer

from .chips import Chip, find_chip
from .hlo import Collective, Program, read_program


@dataclass(frozen=True)
class Memory:
    parameters: int
    optimizer: int  # its state
    average: int  # the moving average of the parameters
    batch: float  # includes what layouts add to the arrays that are kept
    temporary: float  # activations, gradients, parameters gathered from other devices
    program: float
    available: float | None  # None: unknown

    @property
    def kept(self) -> int:
        return self.parameters + self.optimizer + self.average

    @property
    def total(self) -> float:
        return self.kept + self.batch + self.temporary + self.program


@dataclass(frozen=True)
class Times:
    compute: float
    memory: float
    links: float | None  # None: their speed is unknown

    @property
    def least(self) -> float:
        return max(self.compute, self.memory, self.links or 0.0)

    @property
    def most(self) -> float:
        return self.compute + self.memory + (self.links or 0.0)


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """The cost of one training step; work is per device."""

    devices: str
    num_devices: int
    device_kind: str
    dtype: str
    mesh: dict[str, int]
    parameters: int
    tokens_per_step: int  # target slots, over all devices
    rows_per_step: int
    rows_per_device: int
    passes: int
    needs: float | None = None  # bytes that the compiler asked for but did not get; optional fields below are then None
    memory: Memory
    flops: float  # counts the model's matrix products, by formula
    compiled_flops: float | None = None  # XLA's count, if it gives one, with elementwise operations, and loops once
    memory_traffic: float | None = None  # bytes; this and the next two are None if the program is unreadable
    traffic: dict[str, float] | None = None  # the same by kind of work, as `cost.hlo.KINDS`
    collectives: tuple[Collective, ...] | None = None
    times: Times | None = None  # None: the chip is unknown, or the program unreadable

    @property
    def fits(self) -> bool | None:
        """Whether a step fits into memory; None if it is unknown how much there is."""
        if self.needs is not None:
            return False
        return None if self.memory.available is None else self.memory.total <= self.memory.available

    @property
    def utilization(self) -> float | None:
        """The model's FLOPs over the chip's peak during the least time of a step."""
        return None if self.times is None else self.times.compute / self.times.least


def step_cost(trainer: Trainer, *, available: float | None = None) -> StepCost:
    """The cost of the trainer's step; `available`: bytes of memory per device, None: what is known of it."""
    task = trainer.task
    state = trainer.shapes
    device = trainer.devices.devices[0]
    chip = find_chip(device.device_kind)
    available = available or _memory_of(device) or (chip.memory if chip else None)
    kept = [bytes_per_device(tree) for tree in (state.params, state.opt_state, state.ema)]
    flops = task.flops_per_step / len(trainer.devices)

    common = {
        'devices': str(trainer.devices),
        'num_devices': len(trainer.devices),
        'device_kind': device.device_kind,
        'dtype': task.dtype,
        'mesh': dict(trainer.devices.mesh.shape),
        'parameters': count_parameters(state.params),
        'tokens_per_step': task.rows_per_step * task.slots_per_row,
        'rows_per_step': task.rows_per_step,
        'rows_per_device': task.rows_per_step // trainer.devices.num_row_parts,
        'passes': trainer.passes.count if trainer.passes else 1,
        'flops': flops,
    }

    try:
        compiled = trainer.lower().compile()
    except jax.errors.JaxRuntimeError as error:
        asked = re.search(r'\(?([\d.]+)G\)? exceeds available HBM \(?([\d.]+)G', str(error))
        if asked is None:
            raise
        memory = Memory(*kept, 0, 0, 0, float(asked[2]) * 2**30)
        return StepCost(**common, memory=memory, needs=float(asked[1]) * 2**30)

    sizes = compiled.memory_analysis()
    memory = Memory(
        *kept,
        max(sizes.argument_size_in_bytes - sum(kept), 0),
        sizes.temp_size_in_bytes + sizes.output_size_in_bytes - sizes.alias_size_in_bytes,
        sizes.generated_code_size_in_bytes,
        available,
    )

    try:
        program = read_program(compiled.as_text())
    except jax.errors.JaxRuntimeError:
        program = None  # jaxlib cannot always read what libtpu wrote, such as the big model on v5p
    return StepCost(
        **common,
        memory=memory,
        compiled_flops=(compiled.cost_analysis() or {}).get('flops'),  # none of a GPU that is not here
        memory_traffic=program and program.memory_bytes,
        traffic=program and program.traffic,
        collectives=program and tuple(program.collectives),
        times=_times(flops, program, chip) if program and chip and task.dtype == 'bfloat16' else None,
    )


def _times(flops: float, program: Program, chip: Chip) -> Times:
    sent = sum(exchange.sent for exchange in program.collectives)
    links = 0.0
    if sent:
        links = sent / chip.links if chip.links else None
    return Times(flops / chip.flops, program.memory_bytes / chip.bandwidth, links)


def _memory_of(device: jax.Device) -> float | None:
    try:
        return (device.memory_stats() or {}).get('bytes_limit')
    except (jax.errors.JaxRuntimeError, NotImplementedError):
        return None


def nearest_fit(
    make_trainer: Callable[[ParallelConfig], Trainer],
    parallel: ParallelConfig,
    cost: StepCost,
    *,
    available: float | None = None,
) -> tuple[dict[str, Any], StepCost] | None:
    """The smallest change to `parallel` that makes a step fit, and the cost then; None if none helps.

    Each is compiled, and changes only rounding: passes over a half and a quarter of the rows; remat, then with single
    rows; finally parameters and moments split over all devices.
    """
    limit = cost.memory.available
    for changes in _changes(parallel, cost):
        if 'fsdp' not in changes and limit is not None and cost.memory.kept > limit:
            continue  # fewer rows at once do not reduce what is kept
        try:
            changed = step_cost(make_trainer(replace(parallel, **changes)), available=available)
        except UserError:
            continue  # the rows or devices do not divide over this mesh
        if changed.fits:
            return changes, changed
    return None


def _changes(parallel: ParallelConfig, cost: StepCost) -> Iterator[dict[str, Any]]:
    row = cost.tokens_per_step // cost.rows_per_step
    rows = math.ceil(cost.rows_per_device / cost.passes)
    for part in (2, 4):
        if rows >= part:
            yield {'max_tokens_per_device': math.ceil(rows / part) * row}
    remat = {'remat': 'layers'} if parallel.remat == 'none' else {}
    if remat:
        yield remat
    yield remat | {'max_tokens_per_device': row}
    most = cost.num_devices // parallel.tensor
    if parallel.fsdp < most:
        split: dict[str, Any] = {'strategy': 'mesh', 'data': 1, 'fsdp': most}
        yield split
        yield split | remat | {'max_tokens_per_device': row}


def options_of(changes: dict[str, Any]) -> str:
    """The changes as command-line options.

    >>> options_of({'max_tokens_per_device': 256, 'remat': 'layers'})
    '--parallel.max-tokens-per-device 256 --parallel.remat layers'
    """
    return ' '.join(f'--parallel.{name.replace("_", "-")} {value}' for name, value in changes.items())


STEPS = 3  # the fastest counts


def step_seconds(trainer: Trainer) -> float:
    shapes = trainer.task.batch_shapes()
    batch = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)  # zeros are as much work as text
    state = trainer.init_state()
    state, sums = trainer.step(state, batch)  # compiles
    jax.block_until_ready(sums)
    seconds = []
    for _ in range(STEPS):
        start = time.perf_counter()
        state, sums = trainer.step(state, batch)
        jax.block_until_ready((state, sums))
        seconds.append(time.perf_counter() - start)
    return min(seconds)
