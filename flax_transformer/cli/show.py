"""`flax-transformer show CONFIG [--field value ...]`."""

from dataclasses import dataclass, field
from typing import Annotated

import tyro

from flax_transformer.cli.options import parse, read_config
from flax_transformer.cli.plan import memory_lines
from flax_transformer.tasks.translation.config import Config

DESCRIPTION = """Show what a CONFIG, or the config of a run, is: its parameters, its FLOPs, its schedule, and what a
step takes on the devices that are here. Neither corpus nor tokenizer is needed."""


@dataclass(frozen=True)
class ShowOptions:
    compile: bool = True  # compile the train step, which says how much memory it takes; a large model takes minutes
    config: Annotated[Config, tyro.conf.arg(name='')] = field(default_factory=Config)


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

    from flax_transformer.cost.step_cost import make_plan
    from flax_transformer.engine.step import Trainer
    from flax_transformer.tasks.translation.lowering import with_dtype

    config = with_dtype(options.config, None)
    trainer = Trainer(config)
    _show_parameters(trainer.shapes.params)
    _show_flops(config)
    _show_schedule(trainer, config)
    print(f'\nA step on {trainer.devices}, {config.model.dtype}')
    print(f'  {config.rows_per_step} rows of {config.data.source_length} + {config.data.target_length} slots')
    passes = trainer.passes.count if trainer.passes else 1
    rows = config.rows_per_step // trainer.devices.num_row_parts
    print(f'  of a device {rows} rows{f" in {passes} passes" if passes > 1 else ""}')
    if options.compile:
        print('\nMemory of a device, as the compiler reserves it')
        print('\n'.join(memory_lines(make_plan(config))), flush=True)


def _show_parameters(params) -> None:
    from flax_transformer.cost.summary import parameter_table
    from flax_transformer.engine.state import count_parameters

    print('Parameters')
    for part in parameter_table(params):
        name = part.name + (f' x {part.count}' if part.count > 1 else '')
        shapes = ' '.join('x'.join(map(str, shape)) or '1' for shape in part.shapes)
        print(f'  {part.size:>15,}  {name:42} {shapes}')
    print(f'  {count_parameters(params):>15,}  in all')


def _show_flops(config: Config) -> None:
    from flax_transformer.tasks.translation.flops import training_flops, training_flops_per_token
    from flax_transformer.transformer.flops import forward_flops

    row = forward_flops(config.model, config.data.source_length, config.data.target_length)
    print('\nFLOPs of the matrix products, for each target slot (its share of the source included)')
    for name, value in row._asdict().items():
        print(f'  {value / config.data.target_length / 1e6:13,.2f} M  {name}')
    print(f'  {row.total / config.data.target_length / 1e6:13,.2f} M  forward')
    print(f'  {training_flops_per_token(config) / 1e6:13,.2f} M  training')
    print(f'  {training_flops(config).total / 1e12:13,.3f} T  a step')


def _show_schedule(trainer, config: Config) -> None:
    from flax_transformer.cost.summary import schedule_plot

    print(f'\nLearning rate: {config.optimizer.schedule}, {config.optimizer.name}')
    for line in schedule_plot(trainer.learning_rate, config.training.steps):
        print(f'  {line}')
