"""Private JAX names for process discovery and the key-value store.

`jax.process_count()` and `jax.process_index()` would start the devices, which must wait for `process_group.start`; the
key-value store, which process 0 serves, and the search for a cluster have no public name at all (Orbax reaches the
store likewise). These are private names: pyproject.toml bounds jax by the versions that they were tried with.
"""

from typing import Any

from jax._src.clusters import ClusterEnv
from jax._src.distributed import global_state


def process_count() -> int:
    return global_state.num_processes or 1


def process_number() -> int:
    return global_state.process_id or 0


def store() -> Any:
    """JAX's client of the key-value store; None outside initialize and shutdown."""
    return global_state.client


def find_cluster(
    coordinator: str | None, num_processes: int | None, process_id: int | None, timeout: float
) -> tuple[str | None, int | None, int | None, Any]:
    """Coordinator, number of processes, this one's number and its devices.

    Values that are None are detected from SLURM and the like. Raises RuntimeError, ValueError or KeyError if
    detection fails; undetected values stay None.
    """
    given = coordinator, num_processes, process_id
    return ClusterEnv.auto_detect_unset_distributed_params(*given, None, None, timeout)
