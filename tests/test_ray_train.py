"""examples/ray_train.py on two CPU workers of a local Ray: one run, which survives the loss of a worker."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT

from flax_transformer.engine.monitor.reporter import read_metrics

SETTINGS = {
    'data.numbers-train': 2000,
    'data.numbers-held-out': 20,
    'model.dropout-rate': 0,
    'training.tokens-per-step': 512,
    'training.log-every': 5,
    'training.checkpoint-every': 5,
    'training.evaluate-every': 40,
    'training.sample-translations': 0,
}
OPTIONS = [f'--{name}={value}' for name, value in SETTINGS.items()]


def losses(run: Path) -> dict[int, float]:
    """By step, the last entry for each."""
    return {record['step']: record['loss'] for record in read_metrics(run) if record['kind'] == 'train'}


def start(run: Path, log: Path, steps: int) -> subprocess.Popen:
    script = [str(ROOT / 'examples' / 'ray_train.py'), 'number_words', '--platform', 'cpu', '--workers', '2']
    command = [sys.executable, *script, '--workdir', str(run), *OPTIONS, '--training.steps', str(steps)]
    # Ray waits a minute by default, too little on a busy machine.
    environment = os.environ | {'PYTHONPATH': str(ROOT), 'RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S': '600'}
    with log.open('w') as opened:
        return subprocess.Popen(command, stdout=opened, stderr=opened, env=environment)


def wait_for(path: Path, process: subprocess.Popen, log: Path) -> None:
    for _ in range(6000):
        if path.exists():
            return
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
    raise AssertionError(f'{path} did not come')


@pytest.mark.slow
def test_two_workers_train_one_run_and_go_on_when_one_is_killed(tmp_path: Path) -> None:
    pytest.importorskip('ray')
    run, log = tmp_path / 'run', tmp_path / 'log'
    process = start(run, log, steps=40)
    wait_for(run / 'checkpoints' / '10', process, log)
    os.kill(int(re.match(r'process (\d+) on', (run / 'lock').read_text())[1]), signal.SIGKILL)
    assert process.wait(600) == 0, log.read_text()
    assert 'on 2 cpu devices by jit(shard_map) in 2 processes' in log.read_text()
    assert 'going on from step' in log.read_text()
    assert len(json.loads((run / 'environment.json').read_text())) == 2

    process = start(run, log, steps=50)
    assert process.wait(600) == 0, log.read_text()
    assert 'going on from step 40' in log.read_text()

    one = [sys.executable, '-m', 'flax_transformer.cli', 'train', 'number_words', '--workdir', str(tmp_path / 'one')]
    subprocess.run([*one, *OPTIONS, '--training.steps', '50'], check=True, capture_output=True)
    assert losses(run) == pytest.approx(losses(tmp_path / 'one'), rel=1e-4)
