"""Processes of the command itself on the loopback: one dies, other numbers of them go on, as if one had done it all."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import copy_config
from launches import free_port

from flax_transformer import train
from flax_transformer.common.config_json import to_json
from flax_transformer.common.errors import UserError
from flax_transformer.config import ParallelConfig
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.engine.runs.checksums import faults


@pytest.mark.parametrize(
    ('values', 'expected'),
    [
        ({'num_processes': 2, 'process_id': 2}, r'process_id=2: expected 0 to num_processes - 1 = 1'),
        ({'num_processes': 2, 'coordinator': 'node0'}, r"coordinator='node0': expected HOST:PORT"),
        ({'coordinator': 'node0:1'}, r"coordinator='node0:1' has no effect with num_processes=1"),
    ],
)
def test_what_cannot_be_meant_is_refused(values: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        ParallelConfig(**values)


class Started:
    """The processes of one run, by the command line."""

    def __init__(self, folder: Path, run: Path, count: int, *options: str) -> None:
        self.logs = [folder / f'{run.name}_{i}_of_{count}.log' for i in range(count)]
        # The config comes from JSON, since each field is set.
        environment = os.environ | {'JAX_NUM_CPU_DEVICES': '1', 'PYTHONUNBUFFERED': '1'}
        command = [sys.executable, '-m', 'flax_transformer.cli', 'train', str(folder / 'config.py')]
        command += ['--workdir', str(run), *options]
        if count > 1:
            port = free_port()
            command += ['--parallel.num-processes', str(count), '--parallel.coordinator', f'127.0.0.1:{port}']
        self.processes = []
        for i, log in enumerate(self.logs):
            number = ['--parallel.process-id', str(i)] if count > 1 else []
            with log.open('w') as opened:
                self.processes.append(
                    subprocess.Popen([*command, *number], stdout=opened, stderr=opened, env=environment)
                )

    def wait(self, timeout: float = 900) -> list[int]:
        """Their exit codes."""
        try:
            return [process.wait(timeout) for process in self.processes]
        finally:
            for process in self.processes:
                process.kill()

    def log(self, i: int) -> str:
        return self.logs[i].read_text()


def config_for(corpus: Path, folder: Path, **training: Any) -> Any:
    """Written to folder/config.py too."""
    config = copy_config(corpus, **training)
    config = replace(
        config,
        parallel=ParallelConfig('mesh'),
        model=replace(config.model, dropout_rate=0.0),
        check=replace(config.check, before_training=False),
    )
    (folder / 'config.json').write_text(to_json(config))
    (folder / 'config.py').write_text(
        'from pathlib import Path\nfrom flax_transformer.common.config_json import from_json\n'
        'from flax_transformer.config import Config\n'
        f'def get_config():\n    return from_json(Path({str(folder / "config.json")!r}).read_text(), Config)\n'
    )
    return config


def losses(run: Path) -> list[float]:
    return [record['loss'] for record in read_metrics(run)]


def wait_for(path: Path, started: Started) -> None:
    for _ in range(9000):
        if path.exists():
            return
        assert started.processes[0].poll() is None, started.log(0)
        time.sleep(0.1)
    raise AssertionError(f'{path} did not come')


@pytest.mark.slow
def test_when_one_dies_the_others_end_and_other_numbers_go_on(copy_folder: Path, tmp_path: Path) -> None:
    """4 processes, one of them killed; 2 go on, stopped by SIGTERM to one; 1 ends: as if one had done it all."""
    config = config_for(copy_folder, tmp_path, steps=80, log_every=10, evaluate_every=80, checkpoint_every=10)
    # A rate that falls lets rounding grow more slowly.
    config = replace(config, optimizer=replace(config.optimizer, schedule='linear'))
    (tmp_path / 'config.json').write_text(to_json(config))
    train(config, tmp_path / 'one')
    run = tmp_path / 'many'
    four = Started(tmp_path, run, 4, '--parallel.process-timeout', '40')
    wait_for(run / 'checkpoints' / '10', four)
    four.processes[2].kill()
    codes = four.wait()
    assert codes == [75, 75, -signal.SIGKILL, 75], [four.log(i) for i in range(4)]
    for i in (0, 1, 3):
        assert f'process {i} of 4 stops: process 2 has ended' in four.log(i)
        assert 'the same command goes on from the last checkpoint' in four.log(i)
    saved = max(int(step.name) for step in (run / 'checkpoints').iterdir() if step.name.isdigit())
    assert faults(run / 'checkpoints' / str(saved)) == []

    two = Started(tmp_path, run, 2)
    wait_for(run / 'checkpoints' / str(saved + 10), two)
    two.processes[1].send_signal(signal.SIGTERM)
    assert two.wait() == [75, 75], [two.log(i) for i in range(2)]
    assert f'going on from step {saved}' in two.log(0)
    assert two.log(0).count('SIGTERM: stopped after step') == 1
    assert Started(tmp_path, run, 1).wait() == [0]
    # After a hundred steps rounding has grown to a thousandth of the loss.
    assert losses(run) == pytest.approx(losses(tmp_path / 'one'), rel=1e-4)
    assert [record['step'] for record in read_metrics(run)] == [10, 20, 30, 40, 50, 60, 70, 80, 80]
