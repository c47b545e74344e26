"""Damage of every kind, to every file of a checkpoint: noticed, named, and gone back from."""

import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tiny_states import make_state, shapes_of_params

from flax_transformer.common.errors import UserError
from flax_transformer.engine.runs.checkpoints import DAMAGED, Checkpoints
from flax_transformer.engine.runs.checksums import MANIFEST, faults, write_manifest
from flax_transformer.engine.runs.reading import CheckpointReader

DAMAGES = {
    'flipped': (lambda file: flip(file), 'its content has changed'),
    'cut': (lambda file: file.write_bytes(file.read_bytes()[:-1]), 'bytes, expected'),
    'emptied': (lambda file: file.write_bytes(b''), 'has 0 bytes, expected'),
    'missing': (lambda file: file.unlink(), 'missing'),
    'a link': (lambda file: link(file), 'a link, which no checkpoint has'),
    'endless': (lambda file: os.truncate(file, 1 << 40), 'has 1'),
}


def flip(file: Path) -> None:
    """One bit of the byte in the middle."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def link(file: Path) -> None:
    """The same content, but elsewhere."""
    elsewhere = file.with_name('elsewhere')
    file.rename(elsewhere)
    file.symlink_to(elsewhere)


@pytest.fixture(scope='module')
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of steps 1 and 2. Copy it."""
    folder = tmp_path_factory.mktemp('run') / 'checkpoints'
    with contextlib.closing(Checkpoints(folder)) as checkpoints:
        for step in (1, 2):
            checkpoints.save(make_state(step), {'position': step}, {'validation_loss': 1.0 / step})
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / 'checkpoints'))


def files_of(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob('*') if file.is_file() and file.name != MANIFEST)


def test_every_file_has_its_checksum_and_whole_ones_are_whole(folder: Path) -> None:
    names = {file.relative_to(folder / '2').as_posix() for file in files_of(folder / '2')}
    listed = json.loads((folder / '2' / MANIFEST).read_text())['files']
    assert names - set(listed) <= {'commit_success.txt'}  # later Orbax writes it last of all, and nobody reads it
    assert len(listed) > 10
    assert faults(folder / '1') == faults(folder / '2') == []


@pytest.mark.parametrize('damage', DAMAGES)
def test_each_damage_to_each_file_is_named(folder: Path, damage: str) -> None:
    hurt, expected = DAMAGES[damage]
    whole = folder / '2'
    for file in files_of(whole):
        if file == whole / 'commit_success.txt' or (damage != 'missing' and not file.stat().st_size):
            continue
        name, copy = file.relative_to(whole).as_posix(), folder / 'copy'
        shutil.copytree(whole, copy)
        hurt(copy / name)
        found = faults(copy)
        assert any(line.startswith(f'{name}: ') and expected in line for line in found) or (
            file.name == '_CHECKPOINT_METADATA' and found
        ), (name, found)
        shutil.rmtree(copy)


def test_handlers_that_orbax_adds_after_the_manifest_are_no_damage(folder: Path) -> None:
    """It writes them in a thread of its own, which a busy machine runs late; any other change is damage."""
    file = folder / '2' / '_CHECKPOINT_METADATA'
    late = file.read_text()
    file.write_text(json.dumps(json.loads(late) | {'item_handlers': None, 'commit_timestamp_nsecs': None}))
    (folder / '2' / 'commit_success.txt').unlink(missing_ok=True)  # it comes after the manifest, too
    write_manifest(folder / '2')
    file.write_text(late)
    assert faults(folder / '2') == []
    file.write_text(late.replace('"metrics": {}', '"metrics": 0'))
    assert faults(folder / '2') != []


def test_a_foreign_file_and_a_damaged_manifest_are_named(folder: Path) -> None:
    (folder / '2' / 'params' / 'more').write_text('x')
    assert faults(folder / '2') == ['params/more: not a file of this checkpoint']
    for text in ('', '[]', '{"files": 3}', '{"files": {"a": 1}}', '{'):
        (folder / '2' / MANIFEST).write_text(text)
        assert faults(folder / '2') == ['manifest.json: not a list of checksums']


def test_training_goes_back_to_the_last_good_one_and_says_so(folder: Path) -> None:
    flip(max(files_of(folder / '2' / 'training'), key=lambda file: file.stat().st_size))
    said = []
    with contextlib.closing(Checkpoints(folder, say=said.append)) as checkpoints:
        state, position = checkpoints.restore(make_state(0))
        assert (int(state.step), position) == (1, {'position': 1})
        checkpoints.save(make_state(2), {'position': 2}, {})
    assert 'checkpoint 2 is damaged and was moved to' in said[0]
    assert 'training/' in said[0]
    assert 'its content has changed' in said[0]
    assert said[1:] == ['going back to checkpoint 1']
    assert (folder.parent / DAMAGED / '2' / 'training').is_dir()
    assert faults(folder / '2') == []  # trained and saved again


def test_an_older_damaged_one_is_put_aside_too(folder: Path) -> None:
    """It might be the best, which translation would take."""
    flip(max(files_of(folder / '1' / 'params'), key=lambda file: file.stat().st_size))
    said = []
    with contextlib.closing(Checkpoints(folder, say=said.append)) as checkpoints:
        assert int(checkpoints.restore(make_state(0))[0].step) == 2
    assert len(said) == 1
    assert 'checkpoint 1 is damaged' in said[0]


@pytest.mark.parametrize('file', ['metrics/metrics', '_CHECKPOINT_METADATA', 'params/_METADATA', 'position/metadata'])
@pytest.mark.parametrize('hurt', [flip, lambda file: file.write_bytes(b'{')], ids=['flipped', 'cut'])
def test_damaged_metadata_is_not_met_by_orbax_first(folder: Path, file: str, hurt: Any) -> None:
    hurt(folder / '2' / file)
    with contextlib.closing(Checkpoints(folder, say=lambda _: None)) as checkpoints:
        assert checkpoints.latest() == 1


def test_where_all_are_damaged_training_does_not_begin_again(folder: Path) -> None:
    for step in '12':
        (folder / step / 'position' / 'metadata').unlink()
    with pytest.raises(
        UserError, match=r'every checkpoint in .* is damaged(.|\n)*checkpoint 2:\n  position/metadata: m'
    ):
        Checkpoints(folder)
    assert {each.name for each in folder.iterdir()} == {'1', '2'}


def test_translation_refuses_a_damaged_one_by_name_with_the_others(folder: Path) -> None:
    flip(max(files_of(folder / '2' / 'params'), key=lambda file: file.stat().st_size))
    checkpoints = CheckpointReader(folder)
    with pytest.raises(UserError, match=r'checkpoint 2 in .* damaged:\n  params/(.|\n)*--step: there are 1$'):
        checkpoints.restore_params(shapes_of_params())
    assert checkpoints.restore_params(shapes_of_params(), 1)[1] == 1
    assert (folder / '2').is_dir()  # reading moves nothing


def test_translation_names_what_orbax_cannot_list(folder: Path) -> None:
    (folder / '2' / 'metrics' / 'metrics').write_bytes(b'{')
    with pytest.raises(UserError, match=r'checkpoint 2 in .* damaged:\n  metrics/metrics: has 1 bytes'):
        CheckpointReader(folder).restore_params(shapes_of_params())


def test_one_from_before_there_were_manifests_loads_and_says_so(folder: Path) -> None:
    for step in '12':
        (folder / step / MANIFEST).unlink()
    said = []
    with contextlib.closing(Checkpoints(folder, say=said.append)) as checkpoints:
        assert int(checkpoints.restore(make_state(0))[0].step) == 2
        assert checkpoints.restore_params(shapes_of_params())[1] == 2
    sentence = f'checkpoint 2 in {folder} was written by an earlier version, without checksums: it cannot be verified'
    assert said == [sentence] * 2


def test_a_checkpoint_is_there_with_its_manifest_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest is written before the folder gets its name: a kill in between leaves no checkpoint."""
    seen = []
    monkeypatch.setattr(
        'flax_transformer.engine.runs.checkpoints.write_manifest',
        lambda folder: seen.append((folder.name, (tmp_path / '3').exists())),
    )
    with contextlib.closing(Checkpoints(tmp_path)) as checkpoints:
        checkpoints.save(make_state(3), {}, {})
    assert seen == [('3.orbax-checkpoint-tmp', False)]
