"""What a training step will take on given devices: the real step, compiled for them and never run.

Memory is what the compiler reserves. Times are estimates from data sheets: what the step computes, moves through memory
and exchanges, each at the most that the chip can do.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax

from flax_transformer.common.errors import UserError
from flax_transformer.cost.chips import find_chip
from flax_transformer.cost.hlo import Collective, read_program
from flax_transformer.engine.config.parallel import ParallelConfig
from flax_transformer.engine.devices.sharding import bytes_per_device
from flax_transformer.engine.state import count_parameters
from flax_transformer.engine.step import Trainer
from flax_transformer.tasks.translation.config import Config
from flax_transformer.tasks.translation.flops import training_flops
from flax_transformer.tasks.translation.lowering import lower, with_dtype


@dataclass(frozen=True)
class Memory:
    """Bytes of one device."""

    parameters: int
    optimizer: int  # what it keeps from step to step
    average: int  # the moving average of the parameters
    batch: float  # with what layouts add to all that stays
    temporary: float  # activations, gradients, what is gathered of other devices
    program: float
    available: float | None  # None: unknown

    @property
    def total(self) -> float:
        return self.parameters + self.optimizer + self.average + self.batch + self.temporary + self.program


@dataclass(frozen=True)
class Times:
    """Seconds of a step, estimated: each at the chip's most."""

    compute: float
    memory: float
    links: float | None  # None: their speed is unknown

    @property
    def least(self) -> float:
        """Where all three go on at the same time."""
        return max(self.compute, self.memory, self.links or 0.0)

    @property
    def most(self) -> float:
        """Where none does."""
        return self.compute + self.memory + (self.links or 0.0)


@dataclass(frozen=True)
class Plan:
    """One training step. Work is that of one device."""

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
    needs: float | None  # bytes that the compiler asked for in vain; the fields below are then None
    memory: Memory
    flops: float  # of the model, by formula
    compiled_flops: float | None  # as XLA counts: elementwise operations too, of a loop one turn
    memory_traffic: float | None  # bytes; None, as the next: the compiled program cannot be read
    collectives: tuple[Collective, ...] | None
    times: Times | None  # None: the chip is unknown, or the program

    @property
    def fits(self) -> bool | None:
        """None: nobody knows how much memory there is."""
        if self.needs is not None:
            return False
        return None if self.memory.available is None else self.memory.total <= self.memory.available

    @property
    def utilisation(self) -> float | None:
        """Model FLOPs over what the chip could have done in the least time of a step."""
        return None if self.times is None else self.times.compute / self.times.least


def make_plan(config: Config, devices: Sequence[jax.Device] | None = None, *, available: float | None = None) -> Plan:
    """Compiles the train step of a config for `devices`, which need not be here; None: for those it would train on.

    `available` bytes of memory a device are taken for granted where they are given.
    """
    trainer = Trainer(with_dtype(config, devices), devices)
    config, state = trainer.config, trainer.shapes
    device = trainer.devices.devices[0]
    chip = find_chip(device.device_kind)
    available = available or _memory_of(device) or (chip.memory if chip else None)
    stays = [bytes_per_device(tree) for tree in (state.params, state.opt_state, state.ema)]
    flops = training_flops(config).total / len(trainer.devices)
    common = {
        'devices': str(trainer.devices),
        'num_devices': len(trainer.devices),
        'device_kind': device.device_kind,
        'dtype': config.model.dtype,
        'mesh': dict(trainer.devices.mesh.shape),
        'parameters': count_parameters(state.params),
        'tokens_per_step': config.training.tokens_per_step,
        'rows_per_step': config.rows_per_step,
        'rows_per_device': config.rows_per_step // trainer.devices.num_row_parts,
        'passes': trainer.passes.count if trainer.passes else 1,
        'flops': flops,
    }
    try:
        compiled = lower(trainer).compile()
    except jax.errors.JaxRuntimeError as error:
        asked = re.search(r'\(?([\d.]+)G\)? exceeds available HBM \(?([\d.]+)G', str(error))
        if asked is None:
            raise
        memory = Memory(*stays, 0, 0, 0, float(asked[2]) * 2**30)
        nothing = {'compiled_flops': None, 'memory_traffic': None, 'collectives': None, 'times': None}
        return Plan(**common, memory=memory, needs=float(asked[1]) * 2**30, **nothing)
    sizes = compiled.memory_analysis()
    try:
        program = read_program(compiled.as_text())
    except jax.errors.JaxRuntimeError:
        program = None  # what libtpu wrote is not always what this jaxlib can read: so of the big model on v5p
    memory = Memory(
        *stays,
        max(sizes.argument_size_in_bytes - sum(stays), 0),
        sizes.temp_size_in_bytes + sizes.output_size_in_bytes - sizes.alias_size_in_bytes,
        sizes.generated_code_size_in_bytes,
        available,
    )
    times = None
    if program and chip and common['dtype'] == 'bfloat16':
        sent = sum(each.sent for each in program.collectives)
        links = sent / chip.links if chip.links else (None if sent else 0.0)
        times = Times(flops / chip.flops, program.memory_bytes / chip.bandwidth, links)
    return Plan(
        **common,
        needs=None,
        memory=memory,
        compiled_flops=compiled.cost_analysis()['flops'],
        memory_traffic=program and program.memory_bytes,
        collectives=program and tuple(program.collectives),
        times=times,
    )


def _memory_of(device: jax.Device) -> float | None:
    """Bytes that a device which is here grants to programs."""
    try:
        return (device.memory_stats() or {}).get('bytes_limit')
    except (jax.errors.JaxRuntimeError, NotImplementedError):
        return None  # a device that is not here


def nearest_fit(
    config: Config, devices: Sequence[jax.Device] | None, plan: Plan, *, available: float | None = None
) -> tuple[dict[str, Any], Plan] | None:
    """The least change of `parallel` with which a step fits, and its plan; None: none that is known helps.

    Tried, each by compiling: passes over half the rows, and half of that; remat, with single rows in the end; then
    parameters and moments cut over all devices. None of it changes what is computed, but for rounding.
    """
    limit = plan.memory.available
    for changes in _changes(config, plan):
        changed = replace(config, parallel=replace(config.parallel, **changes))
        if 'fsdp' not in changes and limit is not None and _stays(plan.memory) > limit:
            continue  # fewer rows at once leave what stays as it is
        try:
            found = make_plan(changed, devices, available=available)
        except UserError:
            continue  # a mesh that the rows or the devices do not divide among
        if found.fits:
            return changes, found
    return None


def _stays(memory: Memory) -> float:
    return memory.parameters + memory.optimizer + memory.average


def _changes(config: Config, plan: Plan) -> Iterator[dict[str, Any]]:
    parallel, row = config.parallel, config.data.target_length
    rows = math.ceil(plan.rows_per_device / plan.passes)
    for part in (2, 4):
        if rows >= part:
            yield {'max_tokens_per_device': math.ceil(rows / part) * row}
    remat = {'remat': 'layers'} if parallel.remat == 'none' else {}
    if remat:
        yield remat
    yield remat | {'max_tokens_per_device': row}
    most = plan.num_devices // parallel.tensor
    if parallel.fsdp < most:
        cut: dict[str, Any] = {'strategy': 'mesh', 'data': 1, 'fsdp': most}
        yield cut
        yield cut | remat | {'max_tokens_per_device': row}


def options_of(changes: dict[str, Any]) -> str:
    """The changes as they are written on the command line.

    >>> options_of({'max_tokens_per_device': 256, 'remat': 'layers'})
    '--parallel.max-tokens-per-device 256 --parallel.remat layers'
    """
    assert changes.keys() <= ParallelConfig.__dataclass_fields__.keys()
    return ' '.join(f'--parallel.{name.replace("_", "-")} {value}' for name, value in changes.items())
