"""Checkpoints that are read while training saves, replaces and deletes them; and strange folders and files."""

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_states import make_state, shapes_of_params

from flax_transformer.common.errors import UserError
from flax_transformer.engine.runs import reading
from flax_transformer.engine.runs.checkpoints import DAMAGED, DELETED, Checkpoints, set_aside
from flax_transformer.engine.runs.checksums import MANIFEST
from flax_transformer.engine.runs.finished import REPLACED, steps_of
from flax_transformer.engine.runs.reading import CheckpointReader


@pytest.fixture(scope='module')
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with checkpoints of steps 1 and 2, of which 1 is better. Copy it."""
    run = tmp_path_factory.mktemp('run')
    with contextlib.closing(Checkpoints(run / 'checkpoints')) as checkpoints:
        for step in (1, 2):
            checkpoints.save(make_state(step), {'position': step}, {'validation_loss': float(step)})
    return run


@pytest.fixture
def run(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / 'run'))


def reader_of(run: Path) -> Checkpoints:
    return CheckpointReader(run / 'checkpoints')


def once_before_reading(monkeypatch: pytest.MonkeyPatch, change: Callable[[], Any]) -> None:
    """As if training had done something between the choice of a checkpoint and its reading."""
    read, changes = reading._read, [change]

    def late(*args: Any, **rest: Any) -> Any:
        if changes:
            changes.pop()()
        return read(*args, **rest)

    monkeypatch.setattr(reading, '_read', late)


@pytest.mark.parametrize(('which', 'step'), [(None, 1), ('last', 2)])
def test_another_is_read_if_training_deletes_the_one_that_was_chosen(
    run: Path, monkeypatch: pytest.MonkeyPatch, which: str | None, step: int, capfd: pytest.CaptureFixture[str]
) -> None:
    once_before_reading(monkeypatch, lambda: shutil.rmtree(run / 'checkpoints' / str(step)))
    params, found = reader_of(run).restore_params(shapes_of_params(), which)
    assert found == float(params['b'][0]) == 3 - step
    assert 'Traceback' not in capfd.readouterr().err


def test_the_best_stays_the_best_while_it_is_replaced(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It moves between the listing and the reading of its scores."""
    changes = [lambda: set_aside(run / 'checkpoints' / '1')]
    monkeypatch.setattr(reading, 'strange_files', lambda place: (changes and changes.pop()()) or [])
    assert reader_of(run).best() == 1


def test_a_step_that_was_asked_for_and_is_deleted_meanwhile_is_said_to_be_gone(run: Path, monkeypatch) -> None:
    once_before_reading(monkeypatch, lambda: shutil.rmtree(run / 'checkpoints' / '1'))
    with pytest.raises(UserError, match=r'has no checkpoint of step 1; there are 2$'):
        reader_of(run).restore_params(shapes_of_params(), 1)


def test_a_mean_takes_others_if_one_is_deleted_meanwhile(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once_before_reading(monkeypatch, lambda: shutil.rmtree(run / 'checkpoints' / '1'))
    checkpoints = reader_of(run)
    params, steps = checkpoints.restore_mean(shapes_of_params(), checkpoints.steps)
    assert (list(steps), float(params['b'][0])) == ([2], 2.0)


def test_one_that_waits_to_be_replaced_can_be_read(run: Path) -> None:
    set_aside(run / 'checkpoints' / '1')
    checkpoints = reader_of(run)
    assert (checkpoints.steps(), checkpoints.best(), checkpoints.latest()) == ([1, 2], 1, 2)
    assert float(checkpoints.restore_params(shapes_of_params())[0]['b'][0]) == 1


def test_a_checkpoint_is_renamed_before_its_files_are_removed(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a checkpoint would be read as a damaged one."""
    removed, rmtree = [], shutil.rmtree
    with contextlib.closing(Checkpoints(run / 'checkpoints', keep_last=1, keep_best=0)) as checkpoints:
        monkeypatch.setattr(shutil, 'rmtree', lambda path, **rest: (removed.append(Path(path)), rmtree(path, **rest)))
        checkpoints.save(make_state(3), {}, {})
    assert {path.relative_to(run).parts[0] for path in removed} <= {DELETED, REPLACED}
    assert steps_of(run / 'checkpoints') == [3]
    assert not (run / DELETED).exists()


def test_what_an_interruption_left_is_removed_and_is_no_damage(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (run / DELETED).mkdir()
    (run / 'checkpoints' / '1').rename(run / DELETED / '1')
    (run / DELETED / '1' / MANIFEST).unlink()
    (run / 'checkpoints' / '9.orbax-checkpoint-tmp' / 'params').mkdir(parents=True)
    Checkpoints(run / 'checkpoints').close()
    assert {file.name for file in run.iterdir()} == {'checkpoints'}
    assert {file.name for file in (run / 'checkpoints').iterdir()} == {'2'}
    assert 'damaged' not in capfd.readouterr().err


def test_the_old_one_of_a_replacement_stays_if_the_new_one_is_damaged(run: Path) -> None:
    shutil.copytree(run / 'checkpoints' / '2', run / REPLACED / '2')
    (run / 'checkpoints' / '2' / 'position' / 'metadata').unlink()
    said: list[str] = []
    with contextlib.closing(Checkpoints(run / 'checkpoints', say=said.append)) as checkpoints:
        assert checkpoints.restore(make_state(0))[1] == {'position': 2}
    assert 'checkpoint 2 is damaged and was moved' in said[0]
    assert (run / DAMAGED / '2').is_dir()
    assert not (run / REPLACED).exists()


def test_folders_and_files_that_are_no_checkpoints_are_passed_over(run: Path) -> None:
    folder = run / 'checkpoints'
    for name in ('²', '٣', '007', '-1', '1e3', 'notes', '5.orbax-checkpoint-tmp-1'):
        (folder / name).mkdir()
    (folder / '12').write_text('x')
    (folder / 'notes.txt').write_text('x')
    with contextlib.closing(Checkpoints(folder)) as checkpoints:
        assert (checkpoints.steps(), checkpoints.latest(), checkpoints.best()) == ([1, 2], 2, 1)
        checkpoints.save(make_state(3), {}, {})
    assert reader_of(run).restore_params(shapes_of_params(), 'last')[1] == 3
    assert (folder / 'notes.txt').exists()


@pytest.mark.parametrize('name', ['params/array_metadatas/process_0', 'metrics/metrics'])
def test_settings_that_never_end_are_named_before_anything_reads_them(run: Path, name: str) -> None:
    (run / 'checkpoints' / '2' / MANIFEST).unlink()
    with (run / 'checkpoints' / '2' / name).open('r+b') as file:
        file.truncate(1 << 40)
    with pytest.raises(UserError, match=rf'(?s)checkpoint 2 .*{name}: has 1,099,511,627,776 bytes'):
        CheckpointReader(run / 'checkpoints').best_steps(1)


@pytest.mark.parametrize('has_manifest', [True, False])
@pytest.mark.parametrize('name', [MANIFEST, '_CHECKPOINT_METADATA', 'metrics/metrics', 'params/_METADATA'])
@pytest.mark.parametrize('kind', ['pipe', 'link'])
def test_pipes_and_links_are_named_before_anything_opens_them(
    run: Path, tmp_path: Path, kind: str, name: str, has_manifest: bool
) -> None:
    """A pipe would be waited for, and what a link leads to would be printed."""
    (tmp_path / 'secret').write_text('a secret')
    folder = run / 'checkpoints'
    shutil.rmtree(folder / '1')
    if not has_manifest:
        (folder / '2' / MANIFEST).unlink()
    (folder / '2' / name).unlink(missing_ok=True)
    if kind == 'pipe':
        os.mkfifo(folder / '2' / name)
    else:
        (folder / '2' / name).symlink_to(tmp_path / 'secret')
    expected = rf'{name}: (not a file|a link)'
    with pytest.raises(UserError, match=expected) as caught:
        reader_of(run).restore_params(shapes_of_params())
    assert 'a secret' not in str(caught.value)
    with pytest.raises(UserError, match=expected):
        Checkpoints(folder, say=lambda _: None)


def test_a_checkpoint_that_is_a_link_is_refused(run: Path, tmp_path: Path) -> None:
    (run / 'checkpoints' / '2').rename(tmp_path / 'elsewhere')
    (run / 'checkpoints' / '2').symlink_to(tmp_path / 'elsewhere')
    with pytest.raises(UserError, match='a link, which no checkpoint is'):
        reader_of(run).restore_params(shapes_of_params(), 2)
