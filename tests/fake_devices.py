"""Devices of machines that are not here, with all that JAX's layout of meshes looks at."""

from dataclasses import dataclass, replace

KINDS = {'v4': 'TPU v4', 'v5e': 'TPU v5 lite', 'v5p': 'TPU v5', 'v6e': 'TPU v6 lite'}


@dataclass(frozen=True)
class FakeDevice:
    id: int
    process_index: int
    platform: str
    device_kind: str
    slice_index: int = 0
    coords: tuple[int, int, int] = (0, 0, 0)
    core_on_chip: int = 0


def tpu_slice(name: str) -> list[FakeDevice]:
    """The devices of a slice such as v5e:4x4.

    A host has 2x2 chips: processes are numbered along x, y and z, devices along the torus.
    `test_fake_slices_are_those_of_the_tpu_compiler` compares them with the compiler's.
    """
    generation, _, shape = name.partition(':')
    x_size, y_size, z_size = (*map(int, shape.split('x')), 1)[:3]
    hosts_along_x, hosts_along_y = -(-x_size // 2), -(-y_size // 2)
    devices = [
        FakeDevice(
            id=x + x_size * (y + y_size * z),
            process_index=x // 2 + hosts_along_x * (y // 2 + hosts_along_y * z),
            platform='tpu',
            device_kind=KINDS[generation],
            coords=(x, y, z),
        )
        for z in range(z_size)
        for y in range(y_size)
        for x in range(x_size)
    ]
    return sorted(devices, key=lambda device: device.process_index)


def several_slices(count: int, name: str) -> list[FakeDevice]:
    """The same slice several times, joined by the data center's network."""
    one = tpu_slice(name)
    hosts = 1 + max(device.process_index for device in one)
    return [
        replace(
            device,
            id=100_000 * (number + 1) + device.id,
            process_index=hosts * number + device.process_index,
            slice_index=number,
        )
        for number in range(count)
        for device in one
    ]


def gpu_hosts(*sizes: int, processes_per_host: int = 1) -> list[FakeDevice]:
    """Hosts of so many GPUs; each host is a slice to XLA, however many processes it runs."""
    devices: list[FakeDevice] = []
    for host, size in enumerate(sizes):
        for i in range(size):
            process = host * processes_per_host + i * processes_per_host // size
            devices.append(FakeDevice(len(devices), process, 'gpu', 'NVIDIA H100 80GB HBM3', slice_index=host))
    return devices
