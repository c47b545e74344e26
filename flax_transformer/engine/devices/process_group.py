"""Processes that train together: how they start, and how they end when one of them fails."""

import atexit
import contextlib
import json
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from flax_transformer.common.errors import EXIT_CODE, Interrupted, UserError, first_line
from flax_transformer.common.signals import warn
from flax_transformer.engine.config import ParallelConfig

from . import multihost
from .roll_call import LOCAL, Connections, Facts, call_roll, has_hung_up

_PERIOD = 1.0  # seconds between signs of life
_FEWEST = 4.0  # seconds of silence after which a process whose connection has ended counts as lost


def start(config: ParallelConfig, facts: Callable[[], Facts]) -> None:
    """Joins the processes of a run, before JAX initializes its devices; what `facts` returns must be the same in all.

    Takes the processes of a launcher such as Ray that has called `jax.distributed.initialize`, whatever the config
    says. From then on, a process exits with 75 if another is lost.
    """
    connections: Connections = {}
    if jax.distributed.is_initialized():
        if multihost.count() == 1:
            return
        multihost.agree('the command', json.dumps(facts(), sort_keys=True))
    elif config.num_processes == 1:
        return
    else:
        connections = _join(config, facts())
    global _watch
    _watch = _Watch(config.process_timeout, connections)
    _watch.start()
    atexit.register(_watch.end)
    _exchange(config.process_timeout)


def _join(config: ParallelConfig, facts: Facts) -> Connections:
    address, count, number, local_devices = _resolve(config)
    timeout = config.process_timeout
    host, _, port = address.rpartition(':')
    host = host.strip('[]')  # around an IPv6 address
    connections = call_roll(host, int(port), number, count, facts, timeout)
    is_local = host in LOCAL and 'JAX_COORDINATOR_BIND_ADDRESS' not in os.environ
    jax.distributed.initialize(
        address,
        count,
        number,
        local_device_ids=local_devices,
        # JAX's service, which checks nobody, would listen on all interfaces.
        coordinator_bind_address=address if is_local else None,
        initialization_timeout=timeout,
        # JAX aborts a process after this much silence. Our watch is earlier and says which one is lost.
        heartbeat_timeout_seconds=timeout + 60,
    )
    return connections


def _resolve(config: ParallelConfig) -> tuple[str, int, int, Any]:
    given = config.coordinator or None, config.num_processes or None, config.process_id
    try:
        address, count, number, local = multihost.find_cluster(*given, None, None, config.process_timeout)
    except (RuntimeError, ValueError, KeyError) as error:
        raise UserError(f'parallel.num_processes={config.num_processes}: {error}') from None
    for name, value in (('coordinator', address), ('num_processes', count), ('process_id', number)):
        if value is None:
            raise UserError(
                f'parallel.{name} is not given, and there is neither SLURM, Open MPI nor a TPU pod to ask; give '
                'coordinator HOST:PORT, num_processes and process_id'
            )
    return address, count, number, local if None in given else None


def _exchange(timeout: float) -> None:
    """Computes a sum over all devices: a network may be open on the coordinator's port alone."""
    message = f'the first sum over all devices did not finish in {timeout} s: is the network open, on all ports?'
    alarm = threading.Timer(timeout, _leave, [message])
    alarm.daemon = True
    alarm.start()
    devices = jax.devices()
    # Not jax.make_mesh, which refuses several slices: each GPU host is one.
    mesh = Mesh(devices, ('all',), axis_types=(AxisType.Auto,))
    split = NamedSharding(mesh, PartitionSpec('all'))
    replicated = NamedSharding(mesh, PartitionSpec())
    ones = jax.make_array_from_callback((len(devices),), split, lambda _: np.ones(1, np.int32))
    jax.jit(lambda x: x.sum(), out_shardings=replicated)(ones).block_until_ready()
    alarm.cancel()


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Ends all processes if one fails inside, so that none waits for one that is gone."""
    if multihost.count() == 1:
        yield
        return
    try:
        yield
    except Interrupted as stopped:
        if multihost.lookup('stop') is None:  # only this process stops, as during preparation; the others wait for it
            _fail(str(stopped), EXIT_CODE)
        _part()
        raise
    except (ValueError, jax.errors.JaxRuntimeError) as error:
        if not isinstance(error, UserError):
            reason = first_line(error)[:200]
            if any(word in reason for word in ('Gloo', 'NCCL', 'UNAVAILABLE')):
                warn(f'flax-transformer: communication with other processes failed: {reason}\n')
                time.sleep(_watch.timeout + 10)  # the watch notices which process is lost, and ends this one
            warn(traceback.format_exc())
        _fail(str(error) or first_line(error), 2)
    except BaseException as error:
        warn(traceback.format_exc())
        _fail(f'{type(error).__name__}: {error}', 1)
    multihost.store().key_value_set(f'done/{multihost.number()}', '')
    _part()


def _part() -> None:
    _watch.end()
    jax.distributed.shutdown()  # waits until the others leave too


class _Watch(threading.Thread):
    """Gives signs of life. Process 0 watches those of the others, which wait for its verdict."""

    def __init__(self, timeout: float, connections: Connections) -> None:
        super().__init__(daemon=True, name='processes')
        self.timeout = timeout  # seconds of silence after which a process counts as lost
        self._connections = connections  # none in the processes of another launcher
        self._is_ending = threading.Event()
        self._seen: dict[str, tuple[str, float]] = {str(i): ('', time.monotonic()) for i in range(multihost.count())}

    def run(self) -> None:
        beats = 0
        while not self._is_ending.wait(_PERIOD if beats else 0):
            beats += 1
            try:
                multihost.store().key_value_set(f'alive/{multihost.number()}', str(beats), allow_overwrite=True)
                if multihost.is_first():
                    self._judge()
                elif verdict := multihost.lookup('verdict'):
                    code, _, why = verdict.partition(' ')
                    _leave(why, int(code))
            except jax.errors.JaxRuntimeError as error:
                if self._is_ending.is_set() or not multihost.store():
                    return
                _leave(f'process 0 can no longer be reached ({first_line(error)})')
            except Exception as error:  # nobody would notice any more that a process is lost
                _fail(f'the watch over the processes failed: {type(error).__name__}: {error}', 1)

    def _judge(self) -> None:
        code = EXIT_CODE
        gone = []
        for name, value in _read('failed').items():
            code_there, _, why = value.partition(' ')
            code = int(code_there)  # not 75 for what the user must fix: restarting would not help
            gone.append(f'process {name} {"stopped" if code == EXIT_CODE else "failed"}: {why}')

        done = _read('done')
        for name, beat in _read('alive').items():
            if self._seen[name][0] != beat:
                self._seen[name] = beat, time.monotonic()
        for name, (_, since) in self._seen.items():
            silence = time.monotonic() - since
            if name in done or silence < _FEWEST:
                continue
            if name in self._connections and has_hung_up(self._connections[name]):
                gone.append(f'process {name} has ended')
            elif silence > self.timeout:
                gone.append(f'process {name} gave no sign of life for {self.timeout} s')

        if gone:
            multihost.store().key_value_set('verdict', f'{code} {"; ".join(gone)}', allow_overwrite=True)
            time.sleep(3 * _PERIOD)
            _leave('; '.join(gone), code)

    def end(self) -> None:
        """Ends the thread: one that still waits in JAX's store would abort the process when the interpreter ends."""
        self._is_ending.set()
        self.join()


_watch: _Watch | None = None


def _read(folder: str) -> dict[str, str]:
    return {key.rpartition('/')[2]: value for key, value in multihost.store().key_value_dir_get(f'{folder}/')}


def _fail(message: str, code: int) -> NoReturn:
    """Ends this process for a fault of its own, and tells the others."""
    _exit(f'process {multihost.number()} of {multihost.count()}: {message}', code, notice=message.partition('\n')[0])


def _leave(why: str, code: int = EXIT_CODE) -> NoReturn:
    """Ends this process because of another one."""
    hint = 'the same command goes on from the last checkpoint' if code == EXIT_CODE else 'see its message'
    _exit(f'process {multihost.number()} of {multihost.count()} stops: {why}; {hint}', code)


def _exit(message: str, code: int, *, notice: str = '') -> NoReturn:
    """Ends this process at once, after a notice to the others.

    The interpreter would wait for them at JAX's barrier, and the main thread may wait for devices that never answer.
    """
    warn(f'\nflax-transformer: {message}\n')
    try:
        if notice:
            multihost.store().key_value_set(f'failed/{multihost.number()}', f'{code} {notice}')
            time.sleep(5 * _PERIOD if multihost.is_first() else 0)  # process 0 serves the store: it must not exit first
    finally:  # whatever has become of the store
        os._exit(code)
