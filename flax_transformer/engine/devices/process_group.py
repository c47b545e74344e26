"""Processes that train together: how they start, and how they end when one of them fails.

Without `parallel.num_processes` this does nothing.
"""

import atexit
import contextlib
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.engine.config.parallel import ParallelConfig
from flax_transformer.engine.devices.multihost import (
    agree,
    count,
    find_cluster,
    is_first,
    is_stopping,
    number,
    store,
)
from flax_transformer.engine.devices.rendezvous import Facts, listening_address, meet
from flax_transformer.engine.preemption import EXIT_CODE, Interrupted

_PERIOD = 1.0  # seconds between signs of life
_timeout = 60.0  # seconds of silence after which a process counts as lost
_is_ending = threading.Event()
_watcher: threading.Thread | None = None


def start(config: ParallelConfig, facts: Facts, folder: Path) -> None:
    """Joins the processes of a run, before JAX initializes its devices; `facts` must be the same in all.

    `folder` is the run directory, which all hosts share. A launcher such as Ray may have called
    `jax.distributed.initialize` before: then its processes are taken, whatever the config says.

    Raises UserError if one is missing or differs. From then on, a process exits with code 75 if another is lost.
    """
    timeout = config.process_timeout
    if jax.distributed.is_initialized():
        if count() == 1:
            return
        agree('the command', json.dumps(facts, sort_keys=True))
    elif config.num_processes == 1:
        return
    else:
        _join(config, facts, folder)
    global _watcher
    _watcher = threading.Thread(target=_watch, args=(timeout,), daemon=True, name='processes')
    _watcher.start()
    atexit.register(_end_watch)
    _exchange(timeout)


def _join(config: ParallelConfig, facts: Facts, folder: Path) -> None:
    address, count, number, local = _resolve(config)
    timeout = config.process_timeout
    meet(address, number, count, facts, timeout, folder)
    jax.distributed.initialize(
        address,
        count,
        number,
        local_device_ids=local,
        # The others have just met it there. JAX's own service, which knows no secret, need not listen elsewhere.
        coordinator_bind_address=listening_address(address) or None if number == 0 else None,
        initialization_timeout=timeout,
        # After this much silence JAX aborts the process. Our watch is earlier and says which one is lost.
        heartbeat_timeout_seconds=timeout + 60,
    )


def _resolve(config: ParallelConfig) -> tuple[str, int, int, Any]:
    """Coordinator, number of processes, this one's number and its devices; JAX finds what the config leaves out."""
    given = config.coordinator or None, config.num_processes or None, config.process_id
    try:
        address, count, number, local = find_cluster(*given, config.process_timeout)
    except (RuntimeError, ValueError, KeyError) as error:
        raise UserError(f'parallel.num_processes={config.num_processes}: {error}') from None
    for name, value in (('coordinator', address), ('num_processes', count), ('process_id', number)):
        if value is None:
            raise UserError(
                f'parallel.{name} is not given, and JAX finds neither SLURM, Open MPI nor a TPU pod to ask; '
                'give coordinator HOST:PORT, num_processes and process_id'
            )
    return address, count, number, None if all(each is not None for each in given) else local


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Ends all processes if one fails inside, so that none waits for one that is gone."""
    if count() == 1:
        yield
        return
    try:
        yield
    except Interrupted as stopped:
        if not is_stopping():  # this process alone, as during preparation; the others wait for it
            _fail(str(stopped), EXIT_CODE)
        _end()
        raise
    except (ValueError, jax.errors.JaxRuntimeError) as error:
        if not isinstance(error, UserError):
            _after_a_failed_exchange(error)
            traceback.print_exc()
        _fail(str(error), 2)
    except BaseException as error:
        traceback.print_exc()
        _fail(f'{type(error).__name__}: {error}', 1)
    else:
        store().key_value_set(f'done/{number()}', '')
        _end()


def _end() -> None:
    """Leaves the group; waits until the others do."""
    _end_watch()
    jax.distributed.shutdown()


def _end_watch() -> None:
    """Ends the watch: a thread that still waits in JAX's store aborts a process whose interpreter ends."""
    _is_ending.set()
    if _watcher is not None:
        _watcher.join()


def _fail(message: str, code: int) -> None:
    """Notifies the others and ends this process, without the barrier at which JAX would wait for them."""
    print(f'flax-transformer: process {number()} of {count()}: {message}', file=sys.stderr, flush=True)
    with contextlib.suppress(jax.errors.JaxRuntimeError):
        store().key_value_set(f'failed/{number()}', f'{code} {message.splitlines()[0]}')
        time.sleep(5 * _PERIOD if is_first() else 0)  # process 0 serves the store: it must not exit first
    os._exit(code)


def _after_a_failed_exchange(error: Exception) -> None:
    """After a failed exchange, gives the watch time to find the lost process and end this one."""
    first = str(error).splitlines()[0][:200]
    if any(word in first for word in ('Gloo', 'NCCL', 'UNAVAILABLE')):
        print(f'flax-transformer: communication with other processes failed: {first}', file=sys.stderr, flush=True)
        time.sleep(_timeout + 10)


def _exchange(timeout: float) -> None:
    """Checks with a sum over all devices that they reach one another, which meeting does not prove."""
    hint = 'the first sum over all devices did not finish: is the network between the hosts open, on all ports?'
    alarm = threading.Timer(timeout, _leave, [f'{hint} (waited {timeout} s)'])
    alarm.daemon = True
    alarm.start()
    devices = jax.devices()
    # Not jax.make_mesh, which refuses several slices: each GPU host is one.
    mesh = jax.sharding.Mesh(devices, ('all',), axis_types=(jax.sharding.AxisType.Auto,))
    cut = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec('all'))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    ones = jax.make_array_from_callback((len(devices),), cut, lambda index: np.ones(len(devices), np.int32)[index])
    total = int(jax.device_get(jax.jit(lambda x: x.sum(), out_shardings=whole)(ones)))
    alarm.cancel()
    if total != len(devices):
        raise UserError(f'a sum over {len(devices)} devices of {count()} processes gave {total}')


def _watch(timeout: float) -> None:
    """Gives signs of life. Process 0 watches those of the others, which watch for its verdict."""
    global _timeout
    _timeout = timeout
    client, beats = store(), 0
    seen: dict[str, tuple[str, float]] = {str(i): ('', time.monotonic()) for i in range(count())}
    while not _is_ending.is_set():
        beats += 1
        try:
            client.key_value_set(f'alive/{number()}', str(beats), allow_overwrite=True)
            if is_first():
                done = {key.rpartition('/')[2] for key, _ in client.key_value_dir_get('done/')}
                code, gone = EXIT_CODE, []
                for key, value in client.key_value_dir_get('failed/'):
                    number_of, (of_failed, _, why) = key.rpartition('/')[2], value.partition(' ')
                    code = int(of_failed)  # not 75 for what the user must fix: restarting would not help
                    how = 'stopped' if code == EXIT_CODE else 'failed'
                    gone.append(f'process {number_of} {how}: {why}')
                for key, value in client.key_value_dir_get('alive/'):
                    who = key.rpartition('/')[2]
                    if seen[who][0] != value:
                        seen[who] = (value, time.monotonic())
                for who, (_, since) in seen.items():
                    if who not in done and time.monotonic() - since > timeout:
                        gone.append(f'process {who} gave no sign of life for {timeout} s')
                if gone:
                    client.key_value_set('verdict', f'{code} {"; ".join(gone)}', allow_overwrite=True)
                    time.sleep(3 * _PERIOD)
                    _leave('; '.join(gone), code)
            else:
                try:
                    code_of, _, why = client.key_value_try_get('verdict').partition(' ')
                    _leave(why, int(code_of))
                except jax.errors.JaxRuntimeError as error:
                    if 'NOT_FOUND' not in str(error):
                        raise
        except jax.errors.JaxRuntimeError as error:
            if _is_ending.is_set() or not store():
                return
            _leave(f'process 0 can no longer be reached ({str(error).splitlines()[0]})')
        _is_ending.wait(_PERIOD)


def _leave(why: str, code: int = EXIT_CODE) -> None:
    """Ends this process at once, since the main thread may be waiting for devices that will never answer."""
    hint = 'the same command goes on from the last checkpoint' if code == EXIT_CODE else 'see its message'
    print(f'\nflax-transformer: process {number()} of {count()} stops: {why}; {hint}', file=sys.stderr, flush=True)
    os._exit(code)
