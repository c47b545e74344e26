"""`flax-transformer train CONFIG [--workdir RUN] [--field value ...]`."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from flax_transformer.cli.options import parse
from flax_transformer.config import Config
from flax_transformer.config_files import load_config

DESCRIPTION = """Train a model. CONFIG is a Python file with get_config(), or the name of a shipped config.
The same command goes on with a run that was stopped."""


@dataclass(frozen=True)
class TrainOptions:
    workdir: Path = Path('runs/NAME')  # the run directory; by default runs/ and the config's name
    config: Annotated[Config, tyro.conf.arg(name='')] = field(default_factory=Config)


def train_options(name: str) -> TrainOptions:
    """The defaults for a config by its name."""
    return TrainOptions(Path('runs') / Path(name).stem, load_config(name))


def main(argv: list[str]) -> None:
    options = parse(
        'train',
        TrainOptions,
        argv,
        first='CONFIG',
        description=DESCRIPTION,
        default=train_options,
    )
    # JAX counts its devices once, when it is first asked: simulated ones must be ordered before.
    from flax_transformer.parallel import prepare_devices

    prepare_devices(options.config.parallel.num_devices)

    from absl import logging

    from flax_transformer.experiment import train

    # Orbax logs the traceback of a save that failed in the background; we say what it means.
    logging.set_verbosity(logging.FATAL)
    run = train(options.config, options.workdir, processes=os.cpu_count() or 1)
    print(f'The run is in {run.path}. Next:')
    print(f'  flax-transformer evaluate {run.path}')
    print(f'  flax-transformer translate {run.path} < lines > translations')
