"""Values shared between a run's processes through JAX's key-value store, served by process 0.

JAX has no public name for the store or for its search for a cluster (Orbax reaches the store likewise), so
pyproject.toml bounds jax by the versions that these private names were tried with.
"""

import contextlib
import time
from pathlib import Path
from typing import Any

import jax
from jax._src.clusters import ClusterEnv
from jax._src.distributed import global_state

from flax_transformer.common import quiet
from flax_transformer.common.errors import UserError
from flax_transformer.common.files import holder

# Seconds until all processes see what process 0 writes; NFS, by default, remembers a folder for up to 60.
SEEN_WITHIN = 70.0


def count() -> int:
    """The number of processes. `jax.process_count()` would start the devices, before `process_group` can."""
    return global_state.num_processes or 1


def number() -> int:
    return global_state.process_id or 0


def store() -> Any:
    """JAX's client of the key-value store; None before initialize and after shutdown."""
    return global_state.client


# Takes coordinator, number of processes, this one's number, its devices, a method and seconds. Returns the first four,
# asking SLURM and the like for those that are None. Raises RuntimeError, ValueError or KeyError.
find_cluster = ClusterEnv.auto_detect_unset_distributed_params


def is_first() -> bool:
    """True in process 0, which alone writes the run's files and messages."""
    return number() == 0


def say(text: str) -> None:
    if is_first():
        quiet.say(text)


def broadcast(name: str, value: str | None = None) -> str:
    """Broadcasts the value that process 0 passes; the others wait as long as it lives. Use each name once."""
    if not is_first():
        return _wait_for(f'shared/{name}')
    if count() > 1:
        store().key_value_set(f'shared/{name}', value)
    return value


def agree(name: str, value: str, *, is_shown: bool = False) -> None:
    """Raises UserError in every process, naming those whose value differs from process 0's; with it if `is_shown`."""
    if count() == 1:
        return
    store().key_value_set(f'agreed/{name}/{number()}', value)
    values = [_wait_for(f'agreed/{name}/{i}') for i in range(count())]
    shown = [f' ({value.strip()})' if is_shown else '' for value in values]
    others = [f'{i}{shown[i]}' for i, theirs in enumerate(values) if theirs != values[0]]
    if others:
        raise UserError(
            f"{name} of process {', '.join(others)} differs from process 0's{shown[0]}; "
            'give all the same command and files'
        )


def agree_on_directory(path: Path) -> None:
    """Raises UserError in every process unless all see the lock of process 0 in their run directory.

    Processes with directories of their own would wait for each other for ever at the first save.
    """
    seen = holder(path)
    expected = broadcast('who locked the run directory', seen)
    deadline = time.monotonic() + SEEN_WITHIN
    while seen != expected and time.monotonic() < deadline:
        time.sleep(0.1)
        seen = holder(path)
    agree('the run directory', f'in use by {seen or "none"}', is_shown=True)


class SharedStop:
    """A request to stop that any process received, which all obey after the same step."""

    _is_known = False

    def __call__(self, step: int, requested: str | None) -> str | None:
        """The signal to stop for after `step`, if any; every process must call it in every step.

        A process reads the metrics of step n - 1 after dispatching step n, so none is more than a step ahead of the
        others: they all see what one asks for after step n by step n + 2.
        """
        if requested and not self._is_known:
            with contextlib.suppress(jax.errors.JaxRuntimeError):  # another process asked first
                store().key_value_set('stop', f'{step + 2} {requested}')
        asked = lookup('stop')
        if asked is None:
            return None

        self._is_known = True
        last, _, name = asked.partition(' ')
        return name if step >= int(last) else None


def lookup(key: str) -> str | None:
    """The value that some process has set; None if none has, or if the store is gone."""
    try:
        return store().key_value_try_get(key)
    except jax.errors.JaxRuntimeError:
        return None


def _wait_for(key: str) -> str:
    while True:  # signals are handled between waits of a second; the watch ends the process if another is lost
        try:
            return store().blocking_key_value_get(key, 1000)
        except jax.errors.JaxRuntimeError as error:
            if 'DEADLINE_EXCEEDED' not in str(error):
                raise
