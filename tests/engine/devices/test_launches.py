"""Two and three real processes: whatever goes wrong, each says with whom, and ends in time with the right code."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pytest
from conftest import TESTS
from launches import LAUNCHES, TOY
from toy_processes import compute
from toy_runs import train_circle

from flax_transformer.engine.monitor.reporter import read_metrics

DEVICES = 'two devices in each of two', 'four devices in each of two', 'two devices in each of four'
WAITING = 'one never comes', 'process 0 never comes', 'one dies while it waits', 'process 0 comes twice'
SLOW = ('process 0 dies in a step', *DEVICES, *WAITING)


class End(NamedTuple):
    """How the processes of a launch ended."""

    codes: list[int]
    said: list[str]


def launch(folder: str, *names: str) -> dict[str, End]:
    command = [sys.executable, str(TESTS / 'launches.py'), folder, *names]
    environment = os.environ | {'JAX_PLATFORMS': 'cpu', 'JAX_NUM_CPU_DEVICES': '1'}
    done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, timeout=300, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return {name: End(*zip(*ends, strict=True)) for name, ends in found.items()}


@pytest.fixture(scope='module')
def ends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, End]:
    return launch(str(tmp_path_factory.mktemp('launches')), *(name for name in LAUNCHES if name not in SLOW))


@pytest.fixture(scope='module')
def late_ends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, End]:
    """How launches ended that wait 10 s before they say who is missing."""
    return launch(str(tmp_path_factory.mktemp('launches')), *WAITING)


def agreed(end: End) -> str:
    """The message that all of them gave."""
    assert len(set(end.said)) == 1, end.said
    return end.said[0]


def test_two_train_as_one_does(ends: dict[str, End], tmp_path: Path) -> None:
    """The same batches; files and messages are of process 0 alone."""
    end = ends['two train']
    assert end.codes == (0, 0), end.said
    losses = [record['loss'] for record in read_metrics(train_circle(tmp_path / 'run', TOY).path)]
    assert len(losses) == 4
    assert json.loads(end.said[0].splitlines()[-1]) == pytest.approx(losses, rel=1e-5)
    assert 'step 20/20 loss' in end.said[0]
    assert 'loss' not in end.said[1]
    for number, said in enumerate(end.said):
        assert f'process {number} has finished the run' in said


@pytest.mark.slow
def test_one_that_never_comes_is_named(late_ends: dict[str, End]) -> None:
    end = late_ends['one never comes']
    assert end.codes == (2, 2)
    assert agreed(end).startswith('process 1 of 3 did not come within 10 s; here are process 0 (')
    end = late_ends['process 0 never comes']
    assert end.codes == (2,)
    assert agreed(end).startswith('process 0 cannot be reached at 127.0.0.1:')


@pytest.mark.slow
def test_one_that_died_while_it_waited_did_not_come(late_ends: dict[str, End]) -> None:
    end = late_ends['one dies while it waits']
    assert end.codes == (2, -signal.SIGALRM)
    assert end.said[0].startswith('processes 1, 2 of 3 did not come within 10 s; here are process 0 (')


def test_one_that_comes_twice_is_named(ends: dict[str, End]) -> None:
    end = ends['one comes twice']
    assert end.codes == (2, 2, 2)
    assert 'is process 1 already; give each its own' in agreed(end)


@pytest.mark.slow
def test_a_second_process_0_is_named(late_ends: dict[str, End]) -> None:
    end = late_ends['process 0 comes twice']
    assert end.codes == (2, 2)
    assert 'process 0 cannot listen at 127.0.0.1:' in ''.join(end.said)


def test_one_that_is_about_to_do_something_else_is_named(ends: dict[str, End]) -> None:
    for name, difference in (
        ('one has another config', 'seed: 7 there, 0 in process 0'),
        ('one expects more', 'parallel.num_processes: 3 there, 2 in process 0'),
    ):
        assert ends[name].codes == (2, 2)
        said = agreed(ends[name])
        assert said.startswith('process 1 (')
        assert said.endswith(f') is not about to do the same as process 0:\n  {difference}\n')


def test_one_that_does_not_share_the_run_directory_is_named(ends: dict[str, End]) -> None:
    """They would wait for each other for ever when they save."""
    end = ends['one has another folder']
    assert end.codes == (2, 2)
    assert "the run directory of process 1 (in use by none) differs from process 0's (in use by process " in end.said[0]


def test_one_that_dies_in_a_step_is_named_by_the_others(ends: dict[str, End]) -> None:
    end = ends['one dies in a step']
    assert end.codes == (75, 75, -signal.SIGKILL)
    for number in (0, 1):
        expected = f'process {number} of 3 stops: process 2 has ended; the same command'
        assert expected in end.said[number]


def test_one_that_fails_ends_the_others_with_its_message_and_code(ends: dict[str, End]) -> None:
    end = ends['one fails in a step']
    assert end.codes == (2, 2)
    assert 'process 0 of 2 stops: process 1 failed: batch 2 is wrong; see its message' in end.said[0]
    assert 'flax-transformer: process 1 of 2: batch 2 is wrong' in end.said[1]
    end = ends['one is stopped in a step']
    assert end.codes == (75, 75)
    assert 'process 0 of 2 stops: process 1 stopped: SIGTERM: stopped; the same command goes on' in end.said[0]


def test_one_that_cannot_say_why_it_fails_ends_all_the_same(ends: dict[str, End]) -> None:
    end = ends['one fails, and nobody reads its log']
    assert end.codes == (2, 2)
    assert 'process 1 failed: batch 2 is wrong' in end.said[0]


def test_a_watch_that_fails_ends_all_processes(ends: dict[str, End]) -> None:
    end = ends['the watch of one fails']
    assert end.codes == (1, 1)
    assert 'process 1 failed: the watch over the processes failed: KeyError' in end.said[0]


@pytest.mark.slow
def test_without_process_0_jax_ends_the_others(tmp_path_factory: pytest.TempPathFactory) -> None:
    """At once and by itself, which a launcher must take for a failure that may be tried again."""
    end = launch(str(tmp_path_factory.mktemp('launches')), SLOW[0])[SLOW[0]]
    assert end.codes == (-signal.SIGKILL, -signal.SIGABRT)
    assert 'another task died' in end.said[1]


@pytest.mark.slow
@pytest.mark.parametrize('name', DEVICES)
def test_several_devices_in_each_process(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever the order of the devices: the same rows reach each device, with the same random numbers."""
    end = launch(str(tmp_path_factory.mktemp('launches')), name)[name]
    assert set(end.codes) == {0}, end.said
    # Gloo and JAX print their own lines.
    found = [json.loads(next(line for line in said.splitlines() if line.startswith('{'))) for said in end.said]
    devices = jax.devices()[: sum(process.devices for process in LAUNCHES[name])]
    for way in LAUNCHES[name][0].ways:
        expected = compute(way, devices)
        rows = [each[way].pop('rows') for each in found]
        assert sorted({row for each in rows for row in each}) == expected.pop('rows') == list(range(TOY.rows))
        assert 'tensor' in way or sum(map(len, rows)) == TOY.rows
        for each in found:
            # float32 sums in another order.
            close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
            jax.tree.map(close, each[way], expected)
