"""Minutes long: the wheel in an empty environment, and the quickstart's promise."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Standard output of a command that must succeed."""
    # A user's environment: without what the tests set for themselves.
    clean = {k: v for k, v in os.environ.items() if not k.startswith('JAX_') and k != 'FLAX_TRANSFORMER_DATA'}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, capture_output=True, text=True, env=clean | environment, timeout=1500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_trains_in_an_empty_environment(tmp_path: Path) -> None:
    """Built, installed where nothing else is, and run far from the checkout."""
    run(sys.executable, '-m', 'build', '--wheel', '--outdir', tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob('*.whl')
    venv.create(tmp_path / 'environment', with_pip=True)
    binaries = tmp_path / 'environment' / 'bin'
    run(binaries / 'pip', 'install', '-q', '-c', ROOT / 'requirements.lock', wheel, cwd=tmp_path)
    small = ['--training.steps', '5', '--data.numbers-train', '2000', '--data.numbers-held-out', '20']
    run(binaries / 'flax-transformer', 'train', 'number_words', '--workdir', 'R', *small, cwd=tmp_path)
    scores = run(binaries / 'flax-transformer', 'evaluate', 'R', '--json', cwd=tmp_path)
    assert json.loads(scores)['num_lines'] == 20


def test_the_quickstart_gets_99_percent_of_held_out_numbers_right(tmp_path: Path) -> None:
    command = [sys.executable, '-m', 'flax_transformer.cli']
    run(*command, 'train', 'number_words', '--workdir', 'R', cwd=tmp_path)
    scores = json.loads(run(*command, 'evaluate', 'R', '--json', cwd=tmp_path))
    assert scores['num_lines'] == 1000
    assert scores['exact'] >= 0.99
