"""A program: trains and translates where JAX has lost pmap and all that came with it; `without_pmap.py FOLDER RUN`."""

import importlib
import pkgutil
import sys
from dataclasses import replace
from pathlib import Path

import jax


def remove_pmap() -> None:
    for module in (jax, jax.sharding):
        for name in ('pmap', 'PmapSharding', 'device_put_replicated', 'device_put_sharded'):
            module.__dict__.pop(name, None)


def import_all() -> int:
    """Imports every module of ours; returns how many there are."""
    package = importlib.import_module('flax_transformer')
    names = [module.name for module in pkgutil.walk_packages(package.__path__, 'flax_transformer.')]
    return len([importlib.import_module(name) for name in names if not name.endswith('__main__')])


def train_and_translate(folder: Path, run: str) -> None:
    from toy_runs import train_circle
    from toy_task import CircleConfig

    from flax_transformer import Translator
    from flax_transformer.common.errors import UserError
    from flax_transformer.config import ParallelConfig
    from flax_transformer.engine.devices.devices import prepare_devices

    prepare_devices(2)
    config = CircleConfig()
    config = replace(config, training=replace(config.training, steps=20))
    train_circle(folder / 'mesh', replace(config, parallel=ParallelConfig('mesh', 2, fsdp=2)))
    translator = Translator.from_run(run, parallel=ParallelConfig('pmap', 2), beam_width=1)
    print(*(one.text for one in translator(['seven', 'one hundred'])))
    try:
        train_circle(folder / 'pmap', config)
    except UserError as error:
        print(error)


if __name__ == '__main__':
    remove_pmap()
    print(import_all(), 'modules')
    train_and_translate(Path(sys.argv[1]), sys.argv[2])
