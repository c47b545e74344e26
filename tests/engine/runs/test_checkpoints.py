"""What is kept, and what comes back."""

import contextlib
import shutil
from pathlib import Path
from unittest.mock import Mock

import jax
import numpy as np
import pytest
from tiny_states import make_state
from toy_runs import train_circle
from toy_task import CircleConfig

from flax_transformer.engine.config import LoopConfig
from flax_transformer.engine.runs.checkpoints import Checkpoints, set_aside
from flax_transformer.engine.runs.finished import REPLACED, steps_of


@pytest.mark.parametrize('ema', [False, True])
def test_a_state_comes_back_to_the_bit(tmp_path: Path, ema: bool) -> None:
    checkpoints = Checkpoints(tmp_path)
    saved = make_state(3, ema=ema)
    checkpoints.save(saved, {'position': 17}, {})
    checkpoints.wait()
    state, position = checkpoints.restore(make_state(0, ema=ema))
    assert position == {'position': 17}
    jax.tree.map(np.testing.assert_array_equal, state, saved)
    params, step = checkpoints.restore_params(
        jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), saved.params)
    )
    assert step == 3
    jax.tree.map(np.testing.assert_array_equal, params, saved.params_to_keep)
    checkpoints.close()


def test_a_checkpoint_that_could_not_be_read_again_gets_no_manifest(tmp_path: Path) -> None:
    """Orbax finds the parts to merge by a glob of the whole path, which here matches another folder."""
    checkpoints = Checkpoints(tmp_path / 'y[b]')
    checkpoints.save(make_state(3), {}, {})
    with pytest.raises(
        ValueError, match=r'has not merged the parts of .*params|has not merged the parts of .*training'
    ):
        checkpoints.wait()
    assert not list(tmp_path.rglob('manifest.json'))


def test_a_save_that_fails_in_the_background_ends_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Orbax calls it in a thread of its own; the command ends with code 1."""
    monkeypatch.setattr(
        'flax_transformer.engine.runs.checkpoints.write_manifest', Mock(side_effect=ValueError('has not merged'))
    )
    with pytest.raises(ValueError, match='has not merged'):
        train_circle(tmp_path / 'run', CircleConfig(training=LoopConfig(steps=2)))
    assert steps_of(tmp_path / 'run' / 'checkpoints') == []


def test_without_metrics_the_newest_is_the_best_and_older_ones_go(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep_last=2)
    assert checkpoints.latest() is None
    assert checkpoints.best() is None
    for step in (1, 2, 3, 4):
        checkpoints.save(make_state(step), {}, {})
    checkpoints.wait()
    assert checkpoints.best() == 4
    assert checkpoints.steps() == [3, 4]
    checkpoints.close()


def test_a_checkpoint_is_replaced_or_kept_whatever_happens_meanwhile(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / 'checkpoints'

    def saved_score(checkpoints: Checkpoints) -> float:
        return checkpoints.restore(make_state(3))[1]['score']

    with contextlib.closing(Checkpoints(folder)) as checkpoints:
        checkpoints.save(make_state(3), {'score': 1}, {})

    with contextlib.closing(Checkpoints(folder)) as checkpoints, monkeypatch.context() as patch:
        full = ValueError('RESOURCE_EXHAUSTED: Error writing local file "x"')
        patch.setattr(checkpoints._manager, 'save', Mock(side_effect=full))
        with pytest.raises(OSError, match='no space left for the checkpoint of step 3'):
            checkpoints.save(make_state(3), {'score': 2}, {'validation_loss': 0.5})
        assert (checkpoints.steps(), saved_score(checkpoints)) == ([3], 1)

    shutil.copytree(folder, tmp_path / 'before' / 'checkpoints')
    with contextlib.closing(Checkpoints(folder)) as checkpoints:
        checkpoints.save(make_state(3), {'score': 2}, {'validation_loss': 0.5})
    shutil.copytree(tmp_path / 'before', tmp_path / 'killed_early')
    set_aside(tmp_path / 'killed_early' / 'checkpoints' / '3')
    shutil.copytree(folder, tmp_path / 'killed_late' / 'checkpoints')
    shutil.copytree(tmp_path / 'before' / 'checkpoints', tmp_path / 'killed_late' / REPLACED)
    for run, score, best in (
        (tmp_path, 2, 0.5),
        (tmp_path / 'killed_early', 1, None),
        (tmp_path / 'killed_late', 2, 0.5),
    ):
        with contextlib.closing(Checkpoints(run / 'checkpoints')) as checkpoints:
            assert (checkpoints.steps(), saved_score(checkpoints)) == ([3], score)
            assert checkpoints.best_steps(1) == ([3] if best else [])
        assert not (run / REPLACED).exists()
