"""Two processes that train together must end as they should, on a loaded machine too, whatever ends them.

    python benchmarks/ends.py [--pairs 100] [--at-once 2] [--load 4] [--way done]

Each pair starts as `flax-transformer train` starts several processes (roll call, jax.distributed, a first sum, the
watch), ends in one of the ways below and leaves by the end of the interpreter. `--load` busy processes run meanwhile.
Prints one line of JSON: how many pairs had which exit codes, the number of pairs with other codes than expected, what
the first of those printed, and the seconds.

Each process is a fork of this one, which has imported everything and touched no device.
"""

import argparse
import collections
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ['JAX_PLATFORMS'] = 'cpu'
os.environ['JAX_NUM_CPU_DEVICES'] = '1'

from flax_transformer.common.errors import EXIT_CODE, Interrupted, UserError
from flax_transformer.config import ParallelConfig
from flax_transformer.engine.devices import process_group
from flax_transformer.engine.devices.multihost import SharedStop, agree, broadcast

TIMEOUT = 20  # seconds of silence after which a process counts as lost


def _raise(error: BaseException) -> None:
    raise error


def _in_one(number: int, one: int, way: Callable[[], None]) -> None:
    """The way in one process; the other waits for it."""
    if number == one:
        way()
    time.sleep(120)


def _stop_together(number: int) -> None:
    """As after SIGTERM to process 1 in its third step."""
    stop = SharedStop()
    for step in range(1, 10):
        if name := stop(step, 'SIGTERM' if number == 1 and step == 3 else None):
            raise Interrupted(name)
        agree(f'step {step}', '')  # all wait for all


# How each process ends inside `together`, by its number, and the exit codes of both.
WAYS: dict[str, tuple[Callable[[int], None], tuple[int, int]]] = {
    'done': (lambda number: broadcast('the end', 'x'), (0, 0)),
    'user_error': (lambda number: _raise(UserError('wrong')), (2, 2)),
    'user_error_in_0': (lambda number: _in_one(number, 0, lambda: _raise(UserError('wrong'))), (2, 2)),
    'user_error_in_1': (lambda number: _in_one(number, 1, lambda: _raise(UserError('wrong'))), (2, 2)),
    'exception_in_1': (lambda number: _in_one(number, 1, lambda: _raise(RuntimeError('wrong'))), (1, 1)),
    'exit_in_1': (lambda number: _in_one(number, 1, lambda: sys.exit(3)), (1, 1)),
    'ctrl_c': (lambda number: _raise(KeyboardInterrupt()), (1, 1)),
    'sigterm_in_training': (_stop_together, (EXIT_CODE, EXIT_CODE)),
    'sigterm': (lambda number: _raise(Interrupted('SIGTERM')), (EXIT_CODE, EXIT_CODE)),
    'sigterm_in_0': (lambda number: _in_one(number, 0, lambda: _raise(Interrupted('SIGTERM'))), (EXIT_CODE, EXIT_CODE)),
    'sigterm_in_1': (lambda number: _in_one(number, 1, lambda: _raise(Interrupted('SIGTERM'))), (EXIT_CODE, EXIT_CODE)),
    'killed_1': (lambda number: _in_one(number, 1, lambda: os.kill(os.getpid(), 9)), (EXIT_CODE, -9)),
}
OUTSIDE = {'without_together': (0, 0), 'ctrl_c_outside': (130, 130)}  # these end between `start` and `together`
CODES = {way: codes for way, (_, codes) in WAYS.items()} | OUTSIDE


def take_part(way: str, number: int, port: int) -> int:
    """What a process does, as cli/train.py does it."""
    config = ParallelConfig(
        num_processes=2, coordinator=f'127.0.0.1:{port}', process_id=number, process_timeout=TIMEOUT
    )
    try:
        process_group.start(config, dict)
        if way == 'without_together':
            return 0
        if way == 'ctrl_c_outside':
            raise KeyboardInterrupt
        with process_group.together():
            WAYS[way][0](number)
    except UserError:
        return 2
    except Interrupted:
        return EXIT_CODE
    except KeyboardInterrupt:
        return 130
    return 0


def start(way: str, number: int, port: int, folder: Path) -> int:
    """The id of a process that takes part; it leaves by the end of the interpreter."""
    pid = os.fork()
    if pid:
        return pid
    log = os.open(folder / f'log{number}', os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.exit(take_part(way, number, port))


def free_port() -> int:
    with socket.socket() as any_socket:
        any_socket.bind(('127.0.0.1', 0))
        return any_socket.getsockname()[1]


def run(way: str, pairs: int, at_once: int) -> tuple[dict[str, int], str]:
    """How many pairs ended with which codes, and the logs of the first pair with others than expected."""
    expected = CODES[way]
    counts: dict[str, int] = collections.Counter()
    ended: dict[Path, dict[int, int]] = collections.defaultdict(dict)  # exit codes by process, by the pair's folder
    running: dict[int, tuple[Path, int]] = {}  # folder and number, by process
    first = ''
    top = tempfile.mkdtemp()  # removed below, and not by the forks as they end
    while pairs or running:
        while pairs and len(running) <= 2 * (at_once - 1):
            folder, port = Path(top, str(pairs)), free_port()
            folder.mkdir()
            running |= {start(way, number, port, folder): (folder, number) for number in (0, 1)}
            pairs -= 1
        pid, status = os.wait()
        folder, number = running.pop(pid)
        ended[folder][number] = os.waitstatus_to_exitcode(status)
        if len(ended[folder]) == 2:
            codes = ended[folder][0], ended[folder][1]
            counts[f'{codes[0]} {codes[1]}'] += 1
            if codes != expected and not first:
                first = ''.join((folder / f'log{number}').read_text() for number in (0, 1))
    shutil.rmtree(top)
    return dict(counts), first


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument('--pairs', type=int, default=100)
    parser.add_argument('--at-once', type=int, default=2)
    parser.add_argument('--load', type=int, default=4)
    parser.add_argument('--way', choices=CODES, default='done')
    options = parser.parse_args()
    began = time.monotonic()
    busy = [subprocess.Popen([sys.executable, '-c', 'while True: pass']) for _ in range(options.load)]
    try:
        counts, first = run(options.way, options.pairs, options.at_once)
    finally:
        for process in busy:
            process.kill()
    unexpected = options.pairs - counts.get(' '.join(map(str, CODES[options.way])), 0)
    result = {'way': options.way, 'codes': counts, 'unexpected': unexpected, 'log': first}
    print(json.dumps(result | {'seconds': round(time.monotonic() - began, 1)}))


if __name__ == '__main__':
    main()
