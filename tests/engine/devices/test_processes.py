"""Real processes with several devices each compute what one process with as many devices does."""

import json
import os
import subprocess
import sys
from typing import Any

import jax
import numpy as np
import pytest
from conftest import TESTS
from launches import free_port
from toy_processes import INTERLEAVED, WAYS, compute
from toy_task import CircleConfig


def in_processes(count: int, devices_each: int, ways: list[str]) -> list[dict[str, Any]]:
    """What each of the processes prints."""
    environment = os.environ | {'JAX_NUM_CPU_DEVICES': str(devices_each)}
    command = [sys.executable, str(TESTS / 'toy_processes.py'), str(free_port()), str(count)]
    pipes = {'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE, 'text': True, 'env': environment}
    started = [subprocess.Popen([*command, str(i), *ways], **pipes) for i in range(count)]
    try:
        ended = [process.communicate(timeout=300) for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0] * count, [stderr for _, stderr in ended]
    # Gloo prints its own lines before.
    return [json.loads(stdout.splitlines()[-1]) for stdout, _ in ended]


@pytest.mark.parametrize(
    ('count', 'devices_each', 'ways'),
    [
        (2, 2, [f'pmap{INTERLEAVED}', f'tensor 2{INTERLEAVED}']),
        *(
            pytest.param(*each, [way + order for way in WAYS for order in ('', INTERLEAVED)], marks=pytest.mark.slow)
            for each in ((2, 4), (4, 2))
        ),
    ],
)
def test_several_devices_in_each_process(count: int, devices_each: int, ways: list[str]) -> None:
    """Whatever the order of the devices: the same rows reach each device, with the same random numbers."""
    found = in_processes(count, devices_each, ways)
    for way in ways:
        expected = compute(way, jax.devices()[: count * devices_each])
        rows = [each[way].pop('rows') for each in found]
        assert (
            sorted({row for each in rows for row in each}) == expected.pop('rows') == list(range(CircleConfig().rows))
        )
        if 'tensor' not in way:
            assert sum(map(len, rows)) == CircleConfig().rows
        for each in found:
            # float32 sums in another order.
            close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
            jax.tree.map(close, each[way], expected)
