"""Several processes that train together: their start, what they tell one another, and the end of one of them.

Without `parallel.num_processes` nothing here does anything. Values go through JAX's own key-value store, which process
0 serves.
"""

import contextlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.engine.config.parallel import ParallelConfig
from flax_transformer.engine.devices.jax_cluster import find_cluster, store
from flax_transformer.engine.devices.jax_cluster import process_count as count
from flax_transformer.engine.devices.jax_cluster import process_number as number
from flax_transformer.engine.devices.rendezvous import Facts, meet
from flax_transformer.engine.preemption import EXIT_CODE, Interrupted

T = TypeVar('T')
_PERIOD = 1.0  # seconds between two signs of life


def start(config: ParallelConfig, facts: Facts) -> None:
    """Joins the processes of a run, before JAX touches its devices; `facts` must be the same for all.

    Raises UserError where one is missing or differs. From then on a process ends, with code 75, when another is lost.
    """
    if config.num_processes == 1:
        return
    address, count, number, local = _resolve(config)
    timeout = config.process_timeout
    meet(address, number, count, facts, timeout)
    jax.distributed.initialize(
        address,
        count,
        number,
        local_device_ids=local,
        initialization_timeout=timeout,
        # JAX aborts the process where another is silent so long. Ours says which, and earlier.
        heartbeat_timeout_seconds=timeout + 60,
    )
    threading.Thread(target=_watch, args=(timeout,), daemon=True, name='processes').start()
    _exchange(timeout)


def _resolve(config: ParallelConfig) -> tuple[str, int, int, Any]:
    """Coordinator, number of processes, this one's number and its devices; what the config leaves out, JAX finds."""
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


def is_first() -> bool:
    """Whether this process writes what is written once: files of the run, messages."""
    return number() == 0


def say(text: str) -> None:
    """A line on standard error, of process 0 alone."""
    if is_first():
        print(text, file=sys.stderr, flush=True)


def share(name: str, value: str | None = None) -> str:
    """The value that process 0 gives under a name that is used once; the others wait as long as it lives."""
    if count() == 1:
        return value
    client = store()
    if is_first():
        client.key_value_set(f'shared/{name}', value)
        return value
    return _wait_for(f'shared/{name}')


def first_then_others(name: str, first: Callable[[], T], others: Callable[[], T]) -> T:
    """`first()` in process 0, and once that has returned `others()` in the rest; under a name that is used once."""
    if is_first():
        result = first()
        share(name, '')
        return result
    share(name)
    return others()


def agree(name: str, value: str) -> None:
    """Raises UserError in every process where one has another value than process 0; it names them."""
    if count() == 1:
        return
    client = store()
    client.key_value_set(f'agreed/{name}/{number()}', value)
    values = [_wait_for(f'agreed/{name}/{i}') for i in range(count())]
    others = [str(i) for i, each in enumerate(values) if each != values[0]]
    if others:
        raise UserError(f'{name} of process {", ".join(others)} is not that of process 0; all must see the same files')


class SharedStop:
    """A request to stop that reached one process, as all of them see it: at the same step."""

    def __init__(self) -> None:
        self._step: int | None = None

    def __call__(self, step: int, requested: str | None) -> str | None:
        """What to stop for after `step`, if anything; called in each step, by every process.

        No process is more than a step ahead of what all have begun, since it reads the metrics of the step before: what
        one asks for after step n all have seen after step n + 2.
        """
        client = store()
        if requested and self._step is None:
            with contextlib.suppress(jax.errors.JaxRuntimeError):  # another one was asked before
                client.key_value_set('stop', f'{step + 2} {requested}')
        try:
            asked, _, name = client.key_value_try_get('stop').partition(' ')
        except jax.errors.JaxRuntimeError:
            return None
        self._step = int(asked)
        return name if step >= self._step else None


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Within, the processes train; what fails in one ends the others, and none waits for one that has left."""
    if count() == 1:
        yield
        return
    try:
        yield
    except Interrupted:  # all of them, after the same step
        jax.distributed.shutdown()
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
        jax.distributed.shutdown()


def _fail(message: str, code: int) -> None:
    """Tells the others, and ends this process without the barrier at which JAX would wait for them."""
    print(f'flax-transformer: process {number()} of {count()}: {message}', file=sys.stderr, flush=True)
    with contextlib.suppress(jax.errors.JaxRuntimeError):
        store().key_value_set(f'failed/{number()}', f'{code} {message.splitlines()[0]}')
        time.sleep(5 * _PERIOD if is_first() else 0)  # whoever serves the store must not leave first
    os._exit(code)


def _after_a_failed_exchange(error: Exception) -> None:
    """Waits until the watch knows which process is gone, and has ended this one; else returns."""
    first = str(error).splitlines()[0][:200]
    if any(word in first for word in ('Gloo', 'NCCL', 'UNAVAILABLE')):
        print(f'flax-transformer: an exchange with other processes failed: {first}', file=sys.stderr, flush=True)
        time.sleep(_timeout + 10)


_timeout = 60.0


def _wait_for(key: str) -> str:
    client = store()
    while True:  # in slices, so that a signal is heard; the watch ends the wait for a process that is lost
        try:
            return client.blocking_key_value_get(key, 1000)
        except jax.errors.JaxRuntimeError as error:
            if 'DEADLINE_EXCEEDED' not in str(error):
                raise


def _exchange(timeout: float) -> None:
    """A sum over all devices: that processes have met does not say that their devices reach one another."""
    hint = 'the first sum over all devices did not end: is the network between the hosts open, on all ports?'
    alarm = threading.Timer(timeout, _leave, [f'{hint} (waited {timeout} s)'])
    alarm.daemon = True
    alarm.start()
    devices = jax.devices()
    mesh = jax.make_mesh((len(devices),), ('all',), axis_types=(jax.sharding.AxisType.Auto,), devices=devices)
    cut = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec('all'))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    ones = jax.make_array_from_callback((len(devices),), cut, lambda index: np.ones(len(devices), np.int32)[index])
    total = int(jax.device_get(jax.jit(lambda x: x.sum(), out_shardings=whole)(ones)))
    alarm.cancel()
    if total != len(devices):
        raise UserError(f'a sum over {len(devices)} devices of {count()} processes gave {total}')


def _watch(timeout: float) -> None:
    """Gives signs of life; process 0 looks for those of the others, which look for its verdict."""
    global _timeout
    _timeout = timeout
    client, beats = store(), 0
    seen: dict[str, tuple[str, float]] = {str(i): ('', time.monotonic()) for i in range(count())}
    while True:
        beats += 1
        try:
            client.key_value_set(f'alive/{number()}', str(beats), allow_overwrite=True)
            if is_first():
                done = {key.rpartition('/')[2] for key, _ in client.key_value_dir_get('done/')}
                code, gone = EXIT_CODE, []
                for key, value in client.key_value_dir_get('failed/'):
                    number_of, (of_failed, _, why) = key.rpartition('/')[2], value.partition(' ')
                    code = int(of_failed)  # what the user must mend is no reason to start again
                    gone.append(f'process {number_of} failed: {why}')
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
            if not store():
                return
            _leave(f'process 0 cannot be reached any more ({str(error).splitlines()[0]})')
        time.sleep(_PERIOD)


def _leave(why: str, code: int = EXIT_CODE) -> None:
    """Ends this process at once: the main thread may wait for devices that will never answer."""
    hint = 'the same command goes on from the last checkpoint' if code == EXIT_CODE else 'see its message'
    print(f'\nflax-transformer: process {number()} of {count()} stops: {why}; {hint}', file=sys.stderr, flush=True)
    os._exit(code)
