"""The command `show`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic

import tyro

from flax_transformer.tasks.api import make_trainer

from .options import C, parse
from .plan import memory_lines

if TYPE_CHECKING:
    from flax_transformer.engine.task import Task


@dataclass(frozen=True)
class ShowOptions(Generic[C]):
    """Show the parameters, FLOPs and schedule of a CONFIG or run, and the memory of a step on these devices.

    Needs neither corpus nor tokenizer.
    """

    config: Annotated[C, tyro.conf.arg(name='')]
    compile: bool = True  # compile the train step to see how much memory it takes; minutes for a large model


def main(argv: list[str]) -> None:
    options = parse('show', ShowOptions, argv, first='CONFIG')
    from flax_transformer.engine.devices.devices import prepare_devices

    prepare_devices(options.config.parallel.least_devices)

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
