"""The commands `plan` and `show`: what a config costs."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal

import tyro

from flax_transformer.cost.step_cost import StepCost, nearest_fit, options_of, step_cost
from flax_transformer.tasks.api import make_trainer

from .options import C, note, parse

if TYPE_CHECKING:
    from flax_transformer.engine.config import ParallelConfig
    from flax_transformer.engine.task import Task
    from flax_transformer.engine.trainer import Trainer


@dataclass(frozen=True)
class PlanOptions(Generic[C]):
    """Compile the train step of a CONFIG or run, and report memory, work, communication and an estimate of time.

    It is compiled for this machine, or for TPUs or GPUs that need not be here. Needs neither corpus nor tokenizer.
    """

    config: Annotated[C, tyro.conf.arg(name='')]
    topology: str = 'local'  # such as v5e:4x4, v5p:2x2x1 or h100:8; local: this machine's devices
    memory: float | None = None  # GB (10^9 bytes) per device; None: what is known of the device
    measure: bool = True  # run a few steps on a CPU
    suggest: bool = True  # look for a change that makes it fit
    format: Literal['text', 'json'] = 'text'  # json: one object on one line


def plan(argv: list[str]) -> int:
    options = parse('plan', PlanOptions, argv, first='CONFIG')
    from flax_transformer.cost.chips import LOCAL, prepare_compiler, topology_devices

    config = options.config
    devices = None
    if options.topology == LOCAL:
        config.parallel.prepare_devices()
    else:
        prepare_compiler()
        devices = topology_devices(options.topology)
    available = options.memory and options.memory * 1e9

    def make(parallel: 'ParallelConfig') -> 'Trainer':
        return make_trainer(replace(config, parallel=parallel), devices)

    cost = step_cost(make(config.parallel), available=available)
    is_measured = options.measure and devices is None and cost.device_kind == 'cpu' and cost.flops and not cost.needs
    speed = _speed(config) if is_measured else None
    nearest = None
    if cost.fits is False and options.suggest:
        note('it does not fit; looking for a change that makes it fit')
        nearest = nearest_fit(make, config.parallel, cost, available=available)
    if options.format == 'json':
        print(json.dumps({'config': argv[0], 'topology': options.topology} | as_json(cost, nearest, speed)))
        return 0
    print(f'{argv[0]} on {options.topology}: {cost.devices}, {cost.device_kind}, {cost.dtype}')
    print('\n'.join(lines_of(cost, speed)))
    if cost.fits is False and options.suggest:
        if nearest is None:
            print('\nNeither smaller passes nor remat nor splitting over these devices makes it fit.')
        else:
            print(f'\nIt fits, with {nearest[1].memory.total / 1e9:.2f} GB per device, with {options_of(nearest[0])}')
    return 0


def _speed(config: Any) -> float:
    """FLOP/s of training on the devices here, measured with few layers and rows."""
    from flax_transformer.cost.step_cost import step_seconds

    most = {'model': {'num_encoder_layers': 1, 'num_decoder_layers': 1}, 'training': {'tokens_per_step': 2048}}
    for part, fields in most.items():
        if section := getattr(config, part, None):
            fewer = {name: min(getattr(section, name), size) for name, size in fields.items() if hasattr(section, name)}
            config = replace(config, **{part: replace(section, **fewer)})
    trainer = make_trainer(config)
    return trainer.task.flops_per_step / step_seconds(trainer)


def as_json(
    cost: StepCost, nearest: tuple[dict[str, Any], StepCost] | None, speed: float | None = None
) -> dict[str, Any]:
    times = cost.times and {'least': cost.times.least, 'most': cost.times.most}
    return asdict(cost) | {
        'collectives': cost.collectives and [exchange._asdict() for exchange in cost.collectives],
        'memory_total': cost.memory.total if cost.needs is None else cost.needs,
        'fits': cost.fits,
        'estimated_seconds_of_a_step': times,
        'predicted_seconds_of_a_step': speed and cost.flops * cost.num_devices / speed,
        'estimated_utilization': cost.utilization,
        'nearest_fit': nearest and nearest[0],
    }


def lines_of(cost: StepCost, speed: float | None = None) -> Iterator[str]:
    """The cost as text; `speed` in FLOP/s, if it was measured."""
    passes = f' in {cost.passes} passes' if cost.passes > 1 else ''
    yield f'  parameters      {cost.parameters:,}'
    yield f'  batch           {cost.rows_per_step} rows, {cost.tokens_per_step:,} target slots'
    yield f'  per device      {cost.rows_per_device} rows{passes}'
    yield ''
    yield 'Memory per device, as the compiler reserves it'
    yield from memory_lines(cost)
    if cost.needs is not None:
        return

    yield ''
    yield 'Work per device in a step'
    yield f"  {cost.flops / 1e12:10.3f} TFLOPs    the model's matrix products"
    if cost.compiled_flops is not None:
        yield f'  {cost.compiled_flops / 1e12:10.3f} TFLOPs    as XLA counts: all operations, loops once'
    if cost.collectives is None:
        yield '\nNo exchanges and no estimate of time: jaxlib cannot read what this compiler wrote'
        return
    yield f'  {cost.memory_traffic / 1e9:10.2f} GB        read from and written to memory, and of it for'
    yield from (f'  {size / 1e9:10.2f} GB          {kind}' for kind, size in cost.traffic.items())
    for exchange in cost.collectives:
        purpose = f'{exchange.count} {exchange.kind} of {exchange.bytes / 1e9:.3f} GB in all'
        yield f'  {exchange.sent / 1e9:10.3f} GB        sent for {purpose}'
    if not cost.collectives:
        yield '             none        exchanged with other devices'

    yield ''
    if speed is None:
        yield from _time_lines(cost)
        return
    seconds = cost.flops * cost.num_devices / speed
    rate = f'{cost.tokens_per_step / seconds:,.0f} target slots/s'
    yield 'Time of a step, PREDICTED from steps of a smaller model on this machine, as busy as it is now'
    yield f'  {seconds:10.3g} s         at {speed / 1e9:.0f} GFLOP/s: {rate}'


def memory_lines(cost: StepCost) -> Iterator[str]:
    memory = cost.memory
    parts = [
        ('parameters', memory.parameters),
        ('optimizer', memory.optimizer),
        ('moving average', memory.average),
        ('batch, layouts', memory.batch),
        ('activations, gradients', memory.temporary),
        ('program', memory.program),
        ('total', memory.total),
    ]
    if cost.needs is not None:
        parts = [*parts[:3], ('total', cost.needs)]
    yield from (f'  {size / 1e9:10.3f} GB        {name}' for name, size in parts)
    if memory.available is None:
        yield '  The available memory is unknown: see --memory'
    else:
        is_enough = 'it fits' if cost.fits else 'it does NOT fit'
        yield f'  {memory.available / 1e9:10.3f} GB        available: {is_enough}'


def _time_lines(cost: StepCost) -> Iterator[str]:
    times = cost.times
    if times is None:
        yield f'No estimate of time: the peak of {cost.device_kind} in {cost.dtype} is unknown'
        return
    yield 'Time of a step, ESTIMATED from data sheets; nothing was run'
    links = 'unknown, left out' if times.links is None else f'{times.links * 1e3:.2f} ms'
    yield f'  {times.compute * 1e3:10.2f} ms        to compute, at peak rate'
    yield f'  {times.memory * 1e3:10.2f} ms        to read and write memory, at full bandwidth'
    yield f'  {links:>13}        to exchange, over all links at once'
    yield f'  {times.least * 1e3:10.2f} ms        if everything overlaps: {_rates(cost, times.least)}'
    yield f'  {times.most * 1e3:10.2f} ms        if nothing overlaps: {_rates(cost, times.most)}'


def _rates(cost: StepCost, seconds: float) -> str:
    slots = float(f'{cost.tokens_per_step / seconds:.2g}')  # an estimate: more digits would mean nothing
    return f'{slots:,.0f} target slots/s, MFU {cost.times.compute / seconds:.0%}'


@dataclass(frozen=True)
class ShowOptions(Generic[C]):
    """Show the parameters, FLOPs and schedule of a CONFIG or run, and the memory of a step on these devices.

    Needs neither corpus nor tokenizer.
    """

    config: Annotated[C, tyro.conf.arg(name='')]
    compile: bool = True  # compile the train step to see how much memory it takes; minutes for a large model


def show(argv: list[str]) -> None:
    options = parse('show', ShowOptions, argv, first='CONFIG')
    options.config.parallel.prepare_devices()

    from flax_transformer.cost.step_cost import step_cost
    from flax_transformer.cost.summary import schedule_plot

    trainer = make_trainer(options.config)
    task = trainer.task
    devices = trainer.devices
    _show_parameters(trainer.shapes.params)
    _show_flops(task)
    optimizer = trainer.config.optimizer
    print(f'\nLearning rate: {optimizer.schedule}, {optimizer.name}')
    for line in schedule_plot(trainer.learning_rate, trainer.config.training.steps):
        print(f'  {line}')
    print(f'\nA step on {devices}, {task.dtype}')
    print(f'  {task.rows_per_step} rows of {task.row_name}')
    passes = trainer.passes.count if trainer.passes else 1
    rows = task.rows_per_step // devices.num_row_parts
    print(f'  per device {rows} rows{f" in {passes} passes" if passes > 1 else ""}')
    if options.compile and task.batch_shapes() is not None:
        print('\nMemory per device, as the compiler reserves it')
        print('\n'.join(memory_lines(step_cost(trainer))), flush=True)


def _show_parameters(params: Any) -> None:
    from flax_transformer.cost.summary import parameter_table
    from flax_transformer.engine.task import count_parameters

    print('Parameters')
    for part in parameter_table(params):
        name = part.name + (f' x {part.count}' if part.count > 1 else '')
        shapes = ' '.join('x'.join(map(str, shape)) or '1' for shape in part.shapes)
        print(f'  {part.size:>15,}  {name:42} {shapes}')
    print(f'  {count_parameters(params):>15,}  in total')


def _show_flops(task: 'Task') -> None:
    parts = task.flops_per_slot()
    if not parts:
        return
    training = task.flops_per_step / (task.rows_per_step * task.slots_per_row)
    print('\nFLOPs of the matrix products, per slot of a row')
    for name, value in parts.items():
        print(f'  {value / 1e6:13,.2f} M  {name}')
    print(f'  {sum(parts.values()) / 1e6:13,.2f} M  forward')
    print(f'  {training / 1e6:13,.2f} M  training')
    print(f'  {task.flops_per_step / 1e12:13,.3f} T  per step')
