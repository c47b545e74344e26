"""Meshes of machines that are not here: every device once, every row once, those that exchange most close together."""

import contextlib
import importlib.util
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest
from fake_devices import FakeDevice, gpu_hosts, several_slices, tpu_slice

from flax_transformer.common.errors import UserError
from flax_transformer.config import ParallelConfig
from flax_transformer.cost import chips as topologies
from flax_transformer.engine.devices import multihost
from flax_transformer.engine.devices.devices import Devices

NAMES = [f'{generation}:{shape}' for generation, shapes in topologies.SHAPES.items() for shape in shapes]


def mesh_of(devices: Sequence[FakeDevice], *, fsdp: int = 1, tensor: int = 1) -> Devices:
    return Devices(ParallelConfig('mesh', fsdp=fsdp, tensor=tensor), devices)


def rows_by_process(placed: Devices, rows: int, monkeypatch: pytest.MonkeyPatch) -> dict[int, list[int]]:
    """What `own_rows` says in each process."""
    processes = sorted({device.process_index for device in placed.devices})
    found = {}
    with monkeypatch.context() as patch:
        patch.setattr(multihost, 'count', lambda: len(processes))
        for process in processes:
            patch.setattr(jax, 'process_index', lambda process=process: process)
            found[process] = placed.own_rows(rows).tolist()
    return found


def check_rows(placed: Devices, monkeypatch: pytest.MonkeyPatch) -> dict[int, list[int]]:
    """Checks each process's rows against JAX's own account of the sharding; returns them, two for each part."""
    rows = 2 * placed.num_row_parts
    found = rows_by_process(placed, rows, monkeypatch)
    expected: dict[int, set[int]] = {process: set() for process in found}
    for device, (index,) in placed.by_rows.devices_indices_map((rows,)).items():
        expected[device.process_index] |= set(range(*index.indices(rows)))
    assert found == {process: sorted(each) for process, each in expected.items()}  # sorted, none twice in a process
    holders = np.bincount(np.concatenate(list(found.values())), minlength=rows)
    groups = placed.mesh.devices.reshape(placed.num_row_parts, -1)
    assert holders.tolist() == [len({device.process_index for device in group}) for group in groups for _ in range(2)]
    assert sorted(device.id for device in placed.mesh.devices.flat) == sorted(device.id for device in placed.devices)
    return found


def ways(count: int) -> list[tuple[int, int]]:
    """fsdp 1, 4 and all, tensor 1 and 4."""
    found = {(fsdp, tensor) for tensor in (1, 4) for fsdp in (1, 4, count // tensor)}
    return [(fsdp, tensor) for fsdp, tensor in sorted(found) if fsdp and count % (fsdp * tensor) == 0]


@pytest.mark.parametrize('name', NAMES)
def test_on_every_slice_each_process_has_its_rows_and_none_is_lost(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    devices = tpu_slice(name)
    for fsdp, tensor in ways(len(devices)):
        check_rows(mesh_of(devices, fsdp=fsdp, tensor=tensor), monkeypatch)
        check_rows(mesh_of(sorted(devices, key=lambda each: each.id), fsdp=fsdp, tensor=tensor), monkeypatch)
    found = check_rows(Devices(ParallelConfig('pmap'), devices), monkeypatch)
    assert list(itertools.chain(*found.values())) == list(range(2 * len(devices)))


def test_the_order_along_the_torus_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ring through the 16 chips of v5e:4x4, which enters the first host twice: its rows are not consecutive."""
    placed = mesh_of(tpu_slice('v5e:4x4'), fsdp=16)
    by_id = [device.id for device in placed.mesh.devices.flat]
    assert by_id == [0, 1, 2, 3, 7, 6, 5, 9, 10, 11, 15, 14, 13, 12, 8, 4]
    assert rows_by_process(placed, 16, monkeypatch)[0] == [0, 1, 6, 15]
    compared = 0
    for name in NAMES:
        devices = tpu_slice(name)
        for fsdp, tensor in ways(len(devices)):
            placed = mesh_of(devices, fsdp=fsdp, tensor=tensor)
            # jax.make_mesh refuses to split an axis of the torus, without which some meshes do not fit.
            with contextlib.suppress(NotImplementedError):
                expected = jax.make_mesh(tuple(placed.mesh.shape.values()), ('a', 'b', 'c'), devices=devices).devices
                assert (placed.mesh.devices == expected).all()
                compared += 1
    assert compared > 100


@pytest.mark.parametrize('processes_per_host', [1, 2, 8])
def test_gpu_hosts_train_by_pmap_and_by_mesh(processes_per_host: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each host is a slice of its own, which make_mesh refuses since JAX 0.10.1; groups stay in one while they fit."""
    devices = gpu_hosts(8, 8, processes_per_host=processes_per_host)
    for order in (devices, devices[::-1], devices[::2] + devices[1::2]):
        pmapped = check_rows(Devices(ParallelConfig('pmap'), order), monkeypatch)
        assert list(itertools.chain(*pmapped.values())) == list(range(32))
        for fsdp, tensor in ((1, 1), (2, 1), (8, 1), (16, 1), (1, 8), (4, 2), (2, 4), (4, 4), (1, 16)):
            placed = mesh_of(order, fsdp=fsdp, tensor=tensor)
            check_rows(placed, monkeypatch)
            hosts = [{device.slice_index for device in group.flat} for group in placed.mesh.devices]
            assert {len(each) for each in hosts} == {2 if fsdp * tensor == 16 else 1}
            by_tensor = placed.mesh.devices.reshape(-1, tensor)
            assert all(len({device.slice_index for device in group}) == 1 for group in by_tensor) or tensor == 16


@pytest.mark.parametrize('name', ['v5e:4x4', 'v5p:2x2x2', 'v6e:4x8'])
def test_several_slices_split_the_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Along data first; within a slice the order is that of one slice alone."""
    one, two = tpu_slice(name), several_slices(2, name)
    for fsdp, tensor in ways(len(one)):
        placed = mesh_of(two, fsdp=fsdp, tensor=tensor)
        check_rows(placed, monkeypatch)
        halves = np.split(placed.mesh.devices, 2)
        inside = [[device.id for device in mesh_of(one, fsdp=fsdp, tensor=tensor).mesh.devices.flat]]
        assert [[device.id % 100_000 for device in half.flat] for half in halves] == inside * 2
        assert [{device.slice_index for device in half.flat} for half in halves] == [{0}, {1}]
    placed = mesh_of(two, fsdp=len(two))
    check_rows(placed, monkeypatch)
    assert [{device.slice_index for device in half.flat} for half in np.split(placed.mesh.devices, 2, axis=1)] == [
        {0},
        {1},
    ]
    check_rows(Devices(ParallelConfig('pmap'), two), monkeypatch)


def test_hosts_of_unequal_size_share_rows_where_groups_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = gpu_hosts(8, 4)
    placed = mesh_of(devices, fsdp=2, tensor=2)
    check_rows(placed, monkeypatch)
    assert all(len({device.slice_index for device in group.flat}) == 1 for group in placed.mesh.devices)
    with pytest.raises(UserError, match=r"strategy='pmap': the processes have 8, 4 devices"):
        Devices(ParallelConfig('pmap'), devices)


def test_devices_for_which_jax_knows_no_order_are_used_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of a host's four chips are no box of the torus."""
    check_rows(mesh_of(tpu_slice('v5p:2x2x1')[:3]), monkeypatch)
    check_rows(mesh_of([*several_slices(2, 'v5p:2x2x1')[:3], *several_slices(2, 'v5p:2x2x1')[4:7]]), monkeypatch)


def test_rows_that_do_not_divide_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    placed = mesh_of(gpu_hosts(4, 4), tensor=2)
    with pytest.raises(UserError, match='a batch has 10 rows, which cannot be split into 4 equal parts'):
        rows_by_process(placed, 10, monkeypatch)


def facts(device: Any) -> tuple[Any, ...]:
    return device.id, device.process_index, device.platform, device.device_kind, tuple(device.coords)


@pytest.mark.skipif(importlib.util.find_spec('libtpu') is None, reason='libtpu is not installed')
def test_fake_slices_are_those_of_the_tpu_compiler() -> None:
    from jax.experimental.topologies import get_topology_desc

    topologies.prepare_compiler()
    for name in NAMES:
        real = topologies.topology_devices(name)
        assert [facts(device) for device in tpu_slice(name)] == [facts(device) for device in real]
    real = get_topology_desc(platform='tpu', topology_name='v5p:2x2x2', num_slices=2).devices
    fake = several_slices(2, 'v5p:2x2x2')
    assert [(*facts(each), each.slice_index) for each in fake] == [(*facts(each), each.slice_index) for each in real]
