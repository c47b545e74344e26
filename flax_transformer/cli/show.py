"""`flax-transformer show CONFIG [--field value ...]`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic

import tyro

from flax_transformer.cli.options import C, parse, read_config
from flax_transformer.cli.plan import memory_lines
from flax_transformer.tasks.find import task_module

if TYPE_CHECKING:
    from flax_transformer.engine.task import Task
    from flax_transformer.engine.trainer import Trainer

DESCRIPTION = """Show what a CONFIG, or the config of a run, is: its parameters, its FLOPs, its schedule, and what a
step takes on the devices that are here. Neither corpus nor tokenizer is needed."""


@dataclass(frozen=True)
class ShowOptions(Generic[C]):
    config: Annotated[C, tyro.conf.arg(name='')]
    compile: bool = True  # compile the train step, which says how much memory it takes; a large model takes minutes


def main(argv: list[str]) -> None:
    options = parse(
        'show',
        ShowOptions,
        argv,
        first='CONFIG',
        description=DESCRIPTION,
        default=lambda name: ShowOptions(config=read_config(name)),
    )
    from flax_transformer.engine.devices.devices import prepare_devices

    prepare_devices(options.config.parallel.least_devices)

    from flax_transformer.cost.step_cost import step_cost

    trainer = task_module(options.config.task, 'task').make_trainer(options.config)
    task, devices = trainer.task, trainer.devices
    _show_parameters(trainer.shapes.params)
    _show_flops(task)
    _show_schedule(trainer)
    print(f'\nA step on {devices}, {task.dtype}')
    print(f'  {task.rows_per_step} rows of {task.row_name}')
    passes = trainer.passes.count if trainer.passes else 1
    rows = task.rows_per_step // devices.num_row_parts
    print(f'  of a device {rows} rows{f" in {passes} passes" if passes > 1 else ""}')
    if options.compile:
        print('\nMemory of a device, as the compiler reserves it')
        print('\n'.join(memory_lines(step_cost(trainer))), flush=True)


def _show_parameters(params: Any) -> None:
    from flax_transformer.cost.summary import parameter_table
    from flax_transformer.engine.state import count_parameters

    print('Parameters')
    for part in parameter_table(params):
        name = part.name + (f' x {part.count}' if part.count > 1 else '')
        shapes = ' '.join('x'.join(map(str, shape)) or '1' for shape in part.shapes)
        print(f'  {part.size:>15,}  {name:42} {shapes}')
    print(f'  {count_parameters(params):>15,}  in all')


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
    print(f'  {task.flops_per_step / 1e12:13,.3f} T  a step')


def _show_schedule(trainer: 'Trainer') -> None:
    from flax_transformer.cost.summary import schedule_plot

    optimizer = trainer.config.optimizer
    print(f'\nLearning rate: {optimizer.schedule}, {optimizer.name}')
    for line in schedule_plot(trainer.learning_rate, trainer.config.training.steps):
        print(f'  {line}')
