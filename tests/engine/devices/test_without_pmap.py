"""pmap is no longer developed: a JAX without it leaves a package that works."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import TESTS


@pytest.mark.slow
def test_without_pmap_every_module_is_imported_and_meshes_train_and_translate(tmp_path: Path) -> None:
    run = TESTS / 'golden' / 'number_words'
    # The program itself makes two devices, as `--parallel.num-devices` does.
    command = [sys.executable, str(TESTS / 'without_pmap.py'), str(tmp_path), str(run)]
    environment = {name: value for name, value in os.environ.items() if name != 'JAX_NUM_CPU_DEVICES'}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    modules, translated, trained = done.stdout.splitlines()
    assert int(modules.split()[0]) > 100
    assert translated == 'sieben einhundert'
    assert trained.startswith("parallel.strategy='pmap': jax ")
    assert trained.endswith('--parallel.strategy mesh')
