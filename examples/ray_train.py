"""Trains a config on a Ray cluster, by Ray Train's JaxTrainer: the workers are the processes of one run.

    pip install '.[ray]'   # in a clone
    python examples/ray_train.py wmt14_en_de_big --workers 32 --workdir /shared/runs/big --parallel.strategy mesh
    python examples/ray_train.py wmt14_en_de_big --platform tpu --topology 4x4 --accelerator TPU-V6E --workers 4 ...
    python examples/ray_train.py number_words --platform cpu --workers 2 --workdir runs/numbers   # a trial, here

Options that are not named below go to `flax-transformer train`. A GPU worker has one GPU, a TPU worker the chips of a
host. All hosts must see the same run directory. If a worker is lost, Ray starts all of them again, --restarts times,
and they go on from the last checkpoint; the same command does so too. Ray's own records are in WORKDIR.ray.
"""

import argparse
import os
from pathlib import Path
from typing import Any

import ray
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.v2.jax import JaxTrainer

from flax_transformer.data.named_files import data_root

PLATFORMS = {'gpu': 'cuda', 'tpu': 'tpu', 'cpu': 'cpu'}  # JAX calls them so


def train(options: dict[str, Any]) -> None:
    """What each worker does, once Ray has called jax.distributed.initialize."""
    from flax_transformer.cli.train import main

    main(options['argv'])


def parse(argv: list[str] | None = None) -> tuple[argparse.Namespace, list[str]]:
    """Our own options, and the arguments of `flax-transformer train`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('config', help='a Python file with get_config(), or the name of a shipped config')
    parser.add_argument('--workdir', type=Path, required=True)
    parser.add_argument('--workers', type=int, required=True)
    parser.add_argument('--platform', choices=PLATFORMS, default='gpu')
    parser.add_argument('--topology', help='of TPUs, such as 4x4')
    parser.add_argument('--accelerator', help='of TPUs, such as TPU-V6E')
    parser.add_argument('--restarts', type=int, default=3, help='after the loss of a worker; -1: always')
    ours, rest = parser.parse_known_args(argv)
    ours.workdir = ours.workdir.absolute()  # workers have another working directory
    config = str(Path(ours.config).absolute()) if Path(ours.config).is_file() else ours.config
    return ours, [config, '--workdir', str(ours.workdir), '--parallel.num-processes', str(ours.workers), *rest]


def make_trainer(options: argparse.Namespace, argv: list[str]) -> JaxTrainer:
    is_tpu = options.platform == 'tpu'
    environment = {'JAX_PLATFORMS': PLATFORMS[options.platform]}
    if options.platform == 'cpu':
        environment['JAX_NUM_CPU_DEVICES'] = '1'
    environment['FLAX_TRANSFORMER_DATA'] = str(data_root(None).absolute())
    if 'PYTHONPATH' in os.environ:
        environment['PYTHONPATH'] = os.environ['PYTHONPATH']
    return JaxTrainer(
        train,
        train_loop_config={'argv': argv},
        scaling_config=ScalingConfig(
            num_workers=options.workers,
            use_tpu=is_tpu,
            use_gpu=not is_tpu,  # Ray sets up JAX only so, on CPUs too
            topology=options.topology,
            accelerator_type=options.accelerator,
        ),
        run_config=RunConfig(
            name=f'{options.workdir.name}.ray',
            storage_path=str(options.workdir.parent),
            failure_config=FailureConfig(max_failures=options.restarts),
            worker_runtime_env={'env_vars': environment},
        ),
    )


def main(argv: list[str] | None = None) -> None:
    options, rest = parse(argv)
    if options.platform == 'cpu':  # Ray is made to believe that this machine has GPUs
        ray.init('local', num_cpus=options.workers, num_gpus=options.workers, include_dashboard=False)
    else:
        ray.init()
    make_trainer(options, rest).fit()


if __name__ == '__main__':
    main()
