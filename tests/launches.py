"""Launches of several processes, sound and faulty: `launches.py FOLDER NAME...` prints, as JSON, how they ended.

All launches run at the same time. Their processes are forks of this one, which has imported everything and touched no
device, so a start costs no imports.
"""

import json
import os
import random
import signal
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from toy_processes import INTERLEAVED, WAYS, compute
from toy_runs import CircleRun, train_circle
from toy_task import CircleConfig

from flax_transformer.common.errors import EXIT_CODE, Interrupted, UserError
from flax_transformer.common.files import holder
from flax_transformer.engine.config import LoopConfig, ParallelConfig
from flax_transformer.engine.devices import multihost, process_group
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.engine.runs.averaging import load_run
from flax_transformer.engine.runs.run_directory import RunDirectory

TOY = CircleConfig(training=LoopConfig(steps=20, log_every=5, checkpoint_every=20))


class Process(NamedTuple):
    """One that takes part in a launch."""

    number: int
    count: int  # all processes, as far as this one knows
    fault: str = ''
    timeout: int = 60
    folder: str = ''  # where it trains the toy task, if it does
    ways: tuple[str, ...] = ()  # onto the devices, in which it computes what `compute` does, if it does
    devices: int = 1


EVERY_WAY = tuple(way + order for way in WAYS for order in ('', INTERLEAVED))
SOME_WAYS = f'pmap{INTERLEAVED}', f'tensor 2{INTERLEAVED}'
LAUNCHES = {
    'two train': [Process(0, 2, folder='together'), Process(1, 2, 'sees files late', folder='together')],
    'one never comes': [Process(0, 3, timeout=10), Process(2, 3, timeout=10)],
    'process 0 never comes': [Process(1, 2, timeout=10)],
    'one dies while it waits': [Process(0, 3, timeout=10), Process(1, 3, 'dies while it waits')],
    'one comes twice': [Process(0, 3), Process(1, 3), Process(1, 3)],
    'process 0 comes twice': [Process(0, 2, timeout=10), Process(0, 2, timeout=10)],
    'one has another config': [Process(0, 2), Process(1, 2, 'has another config')],
    'one has another folder': [Process(0, 2, folder='a'), Process(1, 2, 'has another folder', folder='b')],
    'one expects more': [Process(0, 2), Process(1, 3)],
    'one dies in a step': [Process(0, 3), Process(1, 3), Process(2, 3, 'dies')],
    'one fails in a step': [Process(0, 2), Process(1, 2, 'fails')],
    'one fails, and nobody reads its log': [Process(0, 2), Process(1, 2, 'fails unread')],
    'the watch of one fails': [Process(0, 2), Process(1, 2, 'loses its watch')],
    'one is stopped in a step': [Process(0, 2), Process(1, 2, 'is stopped')],
    'process 0 dies in a step': [Process(0, 2, 'dies'), Process(1, 2)],
    'two devices in each of two': [Process(i, 2, ways=SOME_WAYS, devices=2) for i in range(2)],
    'four devices in each of two': [Process(i, 2, ways=EVERY_WAY, devices=4) for i in range(2)],
    'two devices in each of four': [Process(i, 4, ways=EVERY_WAY, devices=2) for i in range(4)],
}


def take_part(process: Process, port: int, folder: Path) -> int:
    """Starts as `flax-transformer train` does and trains; returns the exit code."""
    config = ParallelConfig(
        'mesh',
        num_processes=process.count,
        coordinator=f'127.0.0.1:{port}',
        process_id=process.number,
        process_timeout=process.timeout,
    )
    jax.config.update('jax_num_cpu_devices', process.devices)
    if process.ways:
        jax.distributed.initialize(config.coordinator, process.count, process.number)
        print(json.dumps({way: compute(way, jax.devices()) for way in process.ways}), flush=True)
        jax.distributed.shutdown()
        return 0
    if process.fault == 'dies while it waits':
        signal.alarm(1)
    if process.fault == 'has another folder':
        multihost.SEEN_WITHIN = 1.0
    if process.fault == 'sees files late':
        before = ['', '']
        multihost.holder = lambda path: before.pop() if before else holder(path)
    try:
        process_group.start(config, lambda: {'seed': 7 if process.fault == 'has another config' else 0})
        with process_group.together():
            if process.folder:
                run = train_circle(folder / process.folder, replace(TOY, parallel=config), finish=finish)
                print(json.dumps([record['loss'] for record in read_metrics(run.path)]))
            else:
                train(config, process.fault)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    except Interrupted:
        return EXIT_CODE
    return 0


def finish(run: RunDirectory, config: CircleConfig, prepared: Any) -> None:
    """What follows the last step, as calibration does: reads the run, in all processes together."""
    params = load_run(CircleRun, run.path).params
    assert all(leaf.is_fully_addressable for leaf in jax.tree.leaves(params))
    print(f'process {multihost.number()} has finished the run')


def train(config: ParallelConfig, fault: str) -> None:
    """Three sums over all devices in place of steps; the fault comes before the second."""
    devices = Devices(config)
    step = jax.jit(lambda x: x.sum(), out_shardings=devices.replicated)
    for number in range(1, 4):
        if number == 2 and fault == 'dies':
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 2 and fault == 'fails unread':
            reader, writer = os.pipe()
            os.close(reader)
            os.dup2(writer, 2)
        if number == 2 and fault.startswith('fails'):
            raise UserError('batch 2 is wrong')
        if number == 2 and fault == 'loses its watch':
            multihost.lookup = lambda name: {}[name]
            time.sleep(60)
        if number == 2 and fault == 'is stopped':
            raise Interrupted('SIGTERM: stopped')
        total = int(step(devices.split(np.full(12, number))))
    print(f'process {multihost.number()} of {multihost.count()}: {total}')


def start(process: Process, port: int, log: Path) -> int:
    """The id of a process that takes part; it leaves by the end of the interpreter."""
    if pid := os.fork():
        return pid
    opened = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(opened, 1)
    os.dup2(opened, 2)
    sys.exit(take_part(process, port, log.parent))


def is_free(port: int) -> bool:
    """Whether nobody listens there."""
    with socket.socket() as any_socket:
        return any_socket.connect_ex(('127.0.0.1', port)) != 0


# Each once, below those from which systems connect.
PORTS = filter(is_free, random.sample(range(20_000, 32_000), 12_000))


def free_port() -> int:
    return next(PORTS)


def main(folder: Path, names: list[str]) -> None:
    running = {}
    for name in names:
        port = free_port()
        for place, process in enumerate(LAUNCHES[name]):
            log = folder / f'{name} {place}'
            running[start(process, port, log)] = name, log
    ended: dict[str, dict[Path, list]] = {name: {} for name in names}
    while running:
        pid, status = os.wait()
        name, log = running.pop(pid)
        ended[name][log] = [os.waitstatus_to_exitcode(status), log.read_text()]
    print(json.dumps({name: [each[log] for log in sorted(each)] for name, each in ended.items()}))


if __name__ == '__main__':
    main(Path(sys.argv[1]), sys.argv[2:])
