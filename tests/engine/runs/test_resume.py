"""Steps at once and steps in pieces: the same to the bit, with everything on that has a state or draws at random."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT

from flax_transformer import train
from flax_transformer.common.errors import Interrupted
from flax_transformer.engine.monitor.reporter import Reporter, read_metrics
from flax_transformer.tasks.api import make_trainer

BENCHMARKS = ROOT / 'benchmarks'
sys.path.insert(0, str(BENCHMARKS))

from kill import differences  # noqa: E402
from kill_config import everything_on  # noqa: E402


@pytest.mark.slow
@pytest.mark.parametrize('strategy', ['pmap', 'mesh', 'fsdp'])
def test_steps_in_pieces_equal_steps_at_once(strategy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters, moments, average, data position, metrics (times apart); dropout, mixture and BPE-dropout drawn."""
    config = everything_on(tmp_path, 24, strategy=strategy)
    assert config.data.bpe_dropout
    assert config.data.mixture[0].weight != config.data.mixture[1].weight
    assert config.optimizer.ema_decay
    assert config.model.dropout_rate
    assert config.training.r_drop_alpha
    assert config.training.label_smoothing
    assert make_trainer(config).passes.count == 2
    train(replace(config, training=replace(config.training, checkpoint_every=24)), tmp_path / 'at_once')

    pieces = tmp_path / 'pieces'
    stops = [8, 17]  # between two reports
    monkeypatch.setattr(Reporter, 'advance', lambda _, step: step in stops and os.kill(os.getpid(), signal.SIGTERM))
    for step in stops:
        with pytest.raises(Interrupted, match=f'after step {step}'):
            train(replace(config, training=replace(config.training, checkpoint_every=5)), pieces)
    assert len(differences(pieces, tmp_path / 'at_once', config)) > 50  # it can tell
    train(config, pieces)
    assert differences(pieces, tmp_path / 'at_once', config) == []
    steps = [record['step'] for record in read_metrics(pieces) if record['kind'] == 'train']
    assert steps == [5, 10, 15, 20, 24]


@pytest.mark.slow
def test_killed_again_and_again_training_ends_as_if_nothing_had_happened() -> None:
    """By SIGKILL, SIGTERM and SIGINT, at random moments of every phase; the command itself, too."""
    command = [sys.executable, BENCHMARKS / 'kill.py', '--kills', '42', '--real', '3']
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    *parts, total = map(json.loads, done.stdout.splitlines())
    assert total['differ'] == 0, [part['differ'] for part in parts]
    assert total['kills'] >= 42
    assert len(total['phases']) >= 4
