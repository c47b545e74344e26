"""Training in pieces equals training at once, to the bit, for each task that draws its own examples."""

import os
import shutil
import signal
from pathlib import Path

import jax
import numpy as np
import pytest

from flax_transformer import train
from flax_transformer.common.errors import Interrupted
from flax_transformer.engine.monitor.reporter import Reporter
from flax_transformer.engine.runs.reading import CheckpointReader
from flax_transformer.tasks.api import make_trainer, open_run


@pytest.mark.parametrize(
    ('name', 'stop'),
    [
        ('tiny_classifier', 41),
        pytest.param('tiny_detector', 71, marks=pytest.mark.slow),
        pytest.param('tiny_transcriber', 104, marks=pytest.mark.slow),
    ],
)
def test_steps_in_pieces_equal_steps_at_once(name: str, stop: int, request, tmp_path: Path, monkeypatch) -> None:
    """From the last checkpoint but one, with a stop; dropout, scenes, noise and masks are drawn again the same."""
    whole = request.getfixturevalue(name)
    run = Path(shutil.copytree(whole, tmp_path / 'run'))
    config = open_run(run).read_config()
    shutil.rmtree(run / 'checkpoints' / str(config.training.steps))
    monkeypatch.setattr(Reporter, 'advance', lambda _, step: step == stop and os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Interrupted, match=f'after step {stop}'):
        train(config, run)
    train(config, run)
    like = make_trainer(config).shapes
    states = [CheckpointReader(each / 'checkpoints').restore(like)[0] for each in (whole, run)]
    assert int(states[0].step) == config.training.steps
    jax.tree.map(np.testing.assert_array_equal, *states)
